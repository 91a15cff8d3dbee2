"""The result of a gap analysis in words: headline, numbers, facts, next steps.

All text that came from a cluster is made printable here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drctl.model.errors import ExitCode
from drctl.model.gap import Engine, GapResult, Inversion, OrderScope, PartitionGap, TopicGap
from drctl.model.text import plural, quote
from drctl.views.text import age, be, collected, moment, number, plain, sentence, size, utc
from drctl.views.view import Items, Part, Table, Text, heading, listing, view

PAGE = "gap.html"
DOCUMENT = "gap.json"
EXAMPLES = 3
_WITHIN = {OrderScope.KEY: "of the same key", OrderScope.PARTITION: "of the same partition"}
_ENGINES = {Engine.AUTO: "", Engine.SPARK: ", with Spark", Engine.DIRECT: ", without Spark"}


class Tone(StrEnum):
    """The three possible results of an analysis."""

    FINE = "fully replicated"
    FOUND = "not fully replicated"
    INCOMPLETE = "not complete"


_TONES = {ExitCode.DONE: Tone.FINE, ExitCode.FOUND: Tone.FOUND, ExitCode.UNKNOWN: Tone.INCOMPLETE}


@dataclass(frozen=True, slots=True)
class Line:
    """A number with its name and what it means."""

    name: str
    count: int | None
    meaning: str


@dataclass(frozen=True, slots=True)
class UncomparedPart:
    """Partitions of a topic that could not be compared for one reason; all text is printable."""

    topic: str
    partitions: str
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do or to avoid, why, and the command to paste if there is one."""

    what: str
    why: str
    command: str = ""


def tone(result: GapResult) -> Tone:
    """Derive the result from the exit code."""
    return _TONES[result.exit_code]


def verdict(result: GapResult) -> str:
    """Return the headline: the answer in one sentence."""
    match tone(result):
        case Tone.INCOMPLETE:
            return f"Not complete: {_uncovered(result)}. {_so_far(result)}."
        case Tone.FOUND:
            return f"{_unreplicated(result)}."
        case Tone.FINE:
            return f"Fully replicated: {_all_found(result)}."


def _unreplicated(result: GapResult) -> str:
    count = result.totals.unreplicated
    names = [topic.topic for topic in result.topics if topic.counts.unreplicated]
    where = f"topic {plain(names[0])}" if len(names) == 1 else plural(len(names), "topic")
    records = plural(count, "record")
    return f"{records} of {where} {be(count)} not replicated to {plain(result.target)}"


def _uncovered(result: GapResult) -> str:
    topics = sum(item.partition is None for item in result.not_compared)
    partitions = len(result.not_compared) - topics
    parts = [plural(topics, "topic")] * (topics > 0)
    parts += [plural(partitions, "partition")] * (partitions > 0)
    causes = [f"{' and '.join(parts)} could not be compared"] if parts else []
    undecided = result.totals.undecided
    if undecided:
        causes.append(f"{plural(undecided, 'offset')} {be(undecided)} undecided")
    return " and ".join(causes)


def _so_far(result: GapResult) -> str:
    totals = result.totals
    if totals.unreplicated:
        return f"In the rest, {_unreplicated(result)}"
    if totals.read_from_source == 0:
        return "No records were compared"
    compared = plural(totals.read_from_source, "record")
    return f"In the rest, every record is replicated ({compared} compared)"


def _all_found(result: GapResult) -> str:
    totals = result.totals
    read, target = totals.read_from_source, plain(result.target)
    if read == 0:
        return f"no records in {plural(len(result.topics), 'topic')} on {plain(result.source)}"
    gone = totals.superseded + totals.expired
    if not gone:
        return f"{'the only record is' if read == 1 else f'all {read:,} records are'} on {target}"
    found = f"{number(read - gone)} of {plural(read, 'record')} {be(read - gone)} on {target}"
    return f"{found}, {number(gone)} {be(gone)} superseded or expired there"


def compared_link(result: GapResult) -> str:
    """The link in drctl.yaml, and whether its reverse direction was compared."""
    return f"{result.reverse_of} in reverse" if result.reverse_of else result.link


def circumstances(result: GapResult) -> str:
    """Describe the link, the scope, and the time of the offsets."""
    return (
        f"link {plain(compared_link(result))}, {plain(result.source)} to {plain(result.target)}, "
        f"scope {plain(result.scope)}, offsets as of {utc(_freeze_ms(result))} UTC, "
        f"took {result.seconds:.1f} s{_ENGINES[result.engine]}"
    )


def total_lines(result: GapResult) -> tuple[Line, ...]:
    """Return every total with its meaning."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    return (
        Line("read from source", totals.read_from_source, f"committed records on {source}"),
        Line("read from target", totals.read_from_target, f"committed records on {target}"),
        Line("not replicated", totals.unreplicated, f"on {source}, not on {target}"),
        Line(
            "superseded",
            totals.superseded,
            f"not on {target}: its topic is compacted and holds a newer record with the same key",
        ),
        Line(
            "expired",
            totals.expired,
            f"not on {target}: may have been replicated and deleted there by retention",
        ),
        Line(
            "undecided",
            totals.undecided,
            f"offsets on {source} after the last stable offset: transactions still open",
        ),
        Line(
            "only on target",
            totals.only_on_target,
            f"on {target}, not on {source}: for example written since a failover",
        ),
        Line(
            "duplicated on target",
            totals.duplicated_on_target,
            f"extra copies on {target}: {source} holds the same record fewer times",
        ),
    )


def order_lines(result: GapResult) -> tuple[Line, ...]:
    """Return what copying would do to record order; a count of None means not checked."""
    order, target = result.order, plain(result.target)
    within = "with the same key" if result.within is OrderScope.KEY else "in the same partition"
    return (
        Line("safe", order.safe, f"{target} holds nothing newer {within}: copying keeps order"),
        Line(
            "conflicting",
            order.conflicting,
            f"{target} holds newer records {within}: copying appends old records after newer ones",
        ),
        Line("unkeyed", order.unkeyed, "no key: copying cannot break the order of a key"),
        Line("inversions", order.inversions, f"replicated, but in a different order on {target}"),
    )


def uncompared_parts(result: GapResult) -> tuple[UncomparedPart, ...]:
    """List what could not be compared, grouped by topic and reason."""
    places: dict[tuple[str, str], list[int]] = {}
    for item in result.not_compared:
        numbers = places.setdefault((item.topic, item.reason), [])
        numbers += [] if item.partition is None else [item.partition]
    return tuple(
        UncomparedPart(plain(topic), _runs(sorted(numbers)) or "all partitions", sentence(reason))
        for (topic, reason), numbers in places.items()
    )


def _runs(numbers: list[int]) -> str:
    """Return `0-3, 7` for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n <= runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def offsets(gap: PartitionGap) -> str:
    """Return the first range of unreplicated offsets, and the number of further ranges."""
    runs = max(gap.ranges_total, len(gap.ranges))
    more = f" +{plural(runs - 1, 'range')}" if runs > 1 else ""
    return "".join(f"{a}-{b}" if b > a else f"{a}" for a, b in gap.ranges[:1]) + more


def disorder(result: GapResult) -> tuple[str, ...]:
    """Describe the order of replicated records; empty if it was not checked."""
    found, count = result.inversions, result.order.inversions
    if found is None or count is None:
        return ()
    target, within = plain(result.target), _WITHIN[result.within]
    if not count:
        return (f"Replicated records {within} are in the same order on {target}.",)
    listed = "; ".join(_inversion(each) for each in found[:EXAMPLES])
    more = "; inversions/ lists all" if count > EXAMPLES else ""
    verb = "precedes" if count == 1 else "precede"
    return (
        f"On {target}, {plural(count, 'replicated record')} {verb} a record {within} that is"
        f" earlier on {plain(result.source)}: {listed}{more}.",
    )


def _inversion(each: Inversion) -> str:
    place = f"{plain(each.topic)}-{each.partition}"
    other = each.partition != each.target_partition
    there = f" in partition {each.target_partition}" if other else ""
    return (
        f"{place}: source offset {number(each.offset)} is target offset"
        f" {number(each.target_offset)}{there}, source offset {number(each.earlier_offset)} is"
        f" target offset {number(each.earlier_target_offset)}"
    )


def ledger_facts(result: GapResult) -> tuple[str, ...]:
    """Describe what the ledger saved, and which of its digests were no longer valid."""
    use = result.ledger
    if use is None:
        return ()
    lines = [f"The ledger {plain(use.where)} had no digests for these topics: all was read."]
    if use.oldest_ms is not None:
        lines = [
            f"Not read again: {plural(use.offsets_known, 'offset')} of both clusters. The ledger"
            f" has their digests; the oldest are {age(use.oldest_ms, result.started)}."
        ]
    reasons = Counter((f.reason, f.side) for f in use.discarded)
    lines += [
        f"Ledger digests of {plural(count, 'partition')} on the {side} were discarded, and "
        f"their records were read again: {plain(reason)}."
        for (reason, side), count in reasons.items()
    ]
    if not use.kept:
        lines.append(f"The ledger was not updated: {plain(use.not_kept_reason)}.")
    return tuple(lines)


def _before_the_tail(result: GapResult) -> tuple[str, ...]:
    """Describe what a tail comparison did not read."""
    windows = [p.window for p in result.partitions if p.window and not p.window.whole]
    if not windows:
        return ()
    first, *others = windows
    evidence = plain(f"{first.evidence} ({first.topic}-{first.partition})")
    more = f", and {plural(len(others), 'more partition')}" if others else ""
    return (
        f"Whether records before the tail are replicated, in {plural(len(windows), 'partition')}: "
        f"{evidence}{more}. The last {number(min(w.margin for w in windows))} or more offsets"
        " before the tail were compared: all are replicated.",
        "Duplicates of records before the tail: they are counted as only on the target.",
    )


def known(result: GapResult) -> tuple[str, ...]:
    """List what is true as of the time of the offsets."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    read = (
        f"Read: {plural(totals.read_from_source, 'record')} from {source}, "
        f"{number(totals.read_from_target)} from {target} "
        f"({plural(len(result.topics), 'topic')}, "
        f"{plural(len(tuple(result.partitions)), 'partition')})."
    )
    count = totals.only_on_target
    only = (f"{plural(count, 'record')} {be(count)} only on {target}.",) if count else ()
    return (*facts(result), *only, read)


def facts(result: GapResult) -> tuple[str, ...]:
    """List facts about the unreplicated records, apart from their number."""
    target = plain(result.target)
    lines = [_span(result)] if result.totals.unreplicated else []
    absent = [topic for topic in result.topics if _absent(topic, result)]
    if absent:
        one = f"{plain(absent[0].target_topic)} does not exist on {target}: none of its"
        many = f"{len(absent):,} topics do not exist on {target}: none of their"
        lines.append(f"{one if len(absent) == 1 else many} records are replicated.")
    misplaced = sum(p.misplaced for p in result.partitions)
    if misplaced:
        lines.append(
            f"{plural(misplaced, 'unreplicated record')} {be(misplaced)} on {target}, but in"
            " another partition."
        )
    return (*lines, *disorder(result), *ledger_facts(result))


def oldest(result: GapResult) -> int | None:
    """Return the timestamp of the oldest unreplicated record that has one."""
    times = [p.oldest_timestamp for p in result.partitions if p.counts.unreplicated]
    return min((at for at in times if at is not None and at >= 0), default=None)


def newest(result: GapResult) -> int | None:
    """Return the timestamp of the newest unreplicated record that has one."""
    times = [p.newest_timestamp for p in result.partitions if p.counts.unreplicated]
    return max((at for at in times if at is not None and at >= 0), default=None)


def _span(result: GapResult) -> str:
    first, last = oldest(result), newest(result)
    if first is None or last is None:
        return "The unreplicated records have no timestamps."
    return f"Timestamps of the unreplicated records: {times(first, last)} UTC."


def times(first: int | None, last: int | None) -> str:
    """Return `2013-01-01 .. 2013-01-07`; with the time of day if both are of one day."""
    start, end = utc(first), utc(last)
    if start == end:
        return start
    if first is None or last is None or moment(first) is None or moment(last) is None:
        return f"{start} .. {end}"
    (day, _, _), (other, _, clock) = start.partition(" "), end.partition(" ")
    return f"{start} .. {clock or end}" if day == other else f"{day} .. {other}"


def _absent(topic: TopicGap, result: GapResult) -> bool:
    if any(item.topic == topic.topic for item in result.not_compared):
        return False
    return bool(topic.partitions) and all(p.target_range is None for p in topic.partitions)


def unknown(result: GapResult) -> tuple[str, ...]:
    """List what this run could not answer."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    lines = []
    if result.not_compared:
        lines.append("Whether the partitions that were not compared (listed below) are replicated.")
    if totals.undecided:
        lines.append(
            f"Outcome of open transactions on {source}: {plural(totals.undecided, 'offset')} "
            "after the last stable offset."
        )
    if totals.expired:
        lines.append(
            f"Whether {plural(totals.expired, 'expired record')} ever reached {target}: retention "
            "may have deleted them there."
        )
    lines += _before_the_tail(result)
    if result.order.inversions is None:
        run = "" if result.reverse_of else " Run `drctl gap --order`."
        lines.append(f"Order of replicated records on {target}: not checked.{run}")
    lines.append(f"Records written after {utc(_freeze_ms(result))} UTC: not compared.")
    return tuple(lines)


def _freeze_ms(result: GapResult) -> int:
    return int(result.started.timestamp() * 1000)


@collected
def next_steps(result: GapResult) -> Iterator[Step]:
    """List what to do now, the most urgent first."""
    if result.reverse_of is not None:
        yield from _in_reverse(result, result.reverse_of)
        return
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    missing, again = totals.unreplicated, f"drctl gap --link {quote(result.link)}"
    if not result.complete:
        causes = ["fix the reasons listed under Not compared"] * bool(result.not_compared)
        causes += [
            f"wait until open transactions on {source} end (if one does not, `drctl doctor` has the"
            " command that aborts it)"
        ] * bool(totals.undecided)
        what = " and ".join(causes)
        yield Step(
            f"{what[0].upper()}{what[1:]}, then run `drctl gap` again.",
            "Until it exits with 0 or 1, it is unknown whether all records are replicated.",
            again,
        )
    if missing and (totals.only_on_target or result.order.conflicting):
        yield Step(
            f"Do not restart replication from {source} to {target} while applications write"
            f" to {target}.",
            f"It would append the unreplicated records after newer records on {target}.",
        )
    elif missing:
        yield Step(
            f"Check whether replication from {source} to {target} is running.",
            f"No records are only on {target}, so this may be replication lag. If so, let it "
            "catch up and run `drctl gap` again.",
            again,
        )
    if missing or not result.complete:
        what = "The unreplicated records" if missing else "Records that were not compared"
        yield Step(
            f"Do not truncate, delete or recreate topics on {source}.",
            f"{what} may exist nowhere else.",
        )
    if missing:
        yield from _about_unreplicated(result, source, target)
        return
    if result.complete:
        yield Step(
            "Nothing needs to be copied.",
            f"This covers what {source} held at {utc(_freeze_ms(result))} UTC. If it has taken "
            "writes since, run `drctl gap` again.",
        )
    if result.complete and totals.only_on_target:
        yield Step(
            f"Replicate {plural(totals.only_on_target, 'record')} from {target} to {source} before"
            f" a failback.",
            f"They exist only on {target}.",
            f"drctl failback --link {quote(result.link)}",
        )


def _in_reverse(result: GapResult, forward: str) -> Iterator[Step]:
    """What to do after the comparison of a failback: only the failback repeats it."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    missing, link = totals.unreplicated, quote(forward)
    if missing or not result.complete:
        yield Step(
            f"Continue the failback to {target}; it compares again.",
            f"{plural(missing, 'record')} of {source} {be(missing)} not on {target}."
            if missing
            else "Until then, it is unknown whether all records are replicated.",
            f"drctl failback --link {link}",
        )
        what = "The unreplicated records" if missing else "Records that were not compared"
        yield Step(
            f"Do not truncate, delete or recreate topics on {source}.",
            f"{what} may exist nowhere else.",
        )
    else:
        yield Step(
            "Nothing needs to be copied.",
            f"This covers what {source} held at {utc(_freeze_ms(result))} UTC.",
        )
    if totals.only_on_target:
        yield Step(
            f"List {plural(totals.only_on_target, 'record')} of {target} not on {source}.",
            "Records in quarantine, and discarded ones, are among them.",
            f"drctl gap --link {link}",
        )


def _about_unreplicated(result: GapResult, source: str, target: str) -> Iterator[Step]:
    yield Step(
        f"Check the retention of these topics on {source}.",
        f"Retention keeps deleting records, including those that are not on {target}.",
    )
    counts = [f"{number(line.count)} {line.name}" for line in order_lines(result) if line.count]
    link, out = (quote(each) for each in (result.link, result.out))
    yield Step(
        "Decide about unreplicated records: copy, quarantine, export or discard them.",
        f"{', '.join(counts)} (see Order). The plan shows earlier decisions, and writes nothing.",
        f"drctl reconcile {out} --policy copy",
    )
    yield Step(
        f"If applications already write to {target}, check record order and step order first.",
        "This writes nothing.",
        f"drctl failback --check-order --link {link}",
    )
    yield Step(
        f"Keep {plain(result.out)}.",
        f"{plain(result.records_path)}/ (Parquet) lists every unreplicated record, without its"
        f" value. {DOCUMENT} has the numbers of every partition.",
    )


_STYLES = {Tone.FINE: "bold green", Tone.FOUND: "bold red", Tone.INCOMPLETE: "bold yellow"}
WORST = 10
BLIND = 10


@view
def gap_table(result: GapResult) -> Iterator[Part]:
    """Show the result in 80 columns or more; the next steps come last, next to the prompt."""
    yield Text(verdict(result), _STYLES[tone(result)])
    yield Text(circumstances(result), "dim")
    gaps = worst_partitions(result)
    if gaps:
        yield heading("Not replicated")
        rows = [_worst_cells(*each) for each in gaps]
        columns = ("Topic", "Part.", "Records", "Size", "Source offsets", "Record timestamps")
        numbers = ("Part.", "Records", "Size")
        yield from listing(
            rows, tuple, *columns, numbers=numbers, most=WORST, what="partition", indented=True
        )
    yield from ("", _numbers(total_lines(result)))
    if gaps or result.order.inversions:
        yield from (heading("Order"), _numbers(order_lines(result)))
    if found := facts(result):
        yield from (heading("Known"), Items(found))
    yield from (heading("Unknown"), Items(unknown(result)))
    yield from uncompared(
        [f"{b.topic} ({b.partitions}): {b.reason}" for b in uncompared_parts(result)]
    )
    steps = [
        "\n".join(filter(None, (f"{step.what} {step.why}", step.command)))
        for step in next_steps(result)
    ]
    yield from (heading("Do now"), Items(steps, numbered=True))
    yield f"\nReport: {plain(result.out)}/{PAGE}"


def worst_partitions(result: GapResult) -> Sequence[tuple[str, PartitionGap]]:
    """List all partitions with a gap, the largest gap first."""
    gaps = [(t.topic, p) for t in result.topics for p in t.partitions if p.counts.unreplicated]
    return sorted(gaps, key=lambda pair: (-pair[1].counts.unreplicated, pair[0], pair[1].partition))


def uncompared(lines: Sequence[str]) -> Iterator[Part]:
    """List what could not be compared, up to a limit."""
    if lines:
        rest = [f"and {number(len(lines) - BLIND)} more"] if len(lines) > BLIND else []
        yield from (heading("Not compared"), Items([*lines[:BLIND], *rest]))


def _numbers(lines: Sequence[Line]) -> Table:
    """Show numbers with their meaning; those that are zero share a line."""
    rows = [
        (f"  {line.name}", number(line.count), Text(line.meaning, "dim"))
        for line in lines
        if line.count
    ]
    none = ", ".join(line.name for line in lines if line.count == 0)
    return Table(
        [*rows, *([("  all others", "0", Text(none, "dim"))] if none else ())], numbers=(0, 1)
    )


def _worst_cells(topic: str, gap: PartitionGap) -> tuple[str, ...]:
    row = (number(gap.counts.unreplicated), size(gap.bytes), offsets(gap))
    span = times(gap.oldest_timestamp, gap.newest_timestamp)
    return plain(topic), str(gap.partition), *row, span
