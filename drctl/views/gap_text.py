"""What a gap analysis means, in words: the verdict, its numbers, what is known, what to do now.

All text that came from a cluster is made printable here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from drctl.model.errors import ExitCode
from drctl.model.gap import Engine, GapResult, Inversion, OrderScope, PartitionGap, TopicGap
from drctl.model.text import quote
from drctl.views.text import age, be, collected, number, plain, plural, sentence, size, utc
from drctl.views.view import Items, Part, Table, Text, heading, listing, view

PAGE = "gap.html"
DOCUMENT = "gap.json"
EXAMPLES = 3
_WITHIN = {OrderScope.KEY: "of the same key", OrderScope.PARTITION: "of the same partition"}
_ENGINES = {
    Engine.AUTO: "",
    Engine.SPARK: ", compared by Spark",
    Engine.DIRECT: ", compared without Spark",
}


class Tone(StrEnum):
    """The three endings of an analysis."""

    FINE = "nothing missing"
    FOUND = "records missing"
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
    """Something to do, or to leave alone, and why."""

    what: str
    why: str


def tone(result: GapResult) -> Tone:
    """The ending, from the exit code."""
    return _TONES[result.exit_code]


def verdict(result: GapResult) -> str:
    """The answer in one sentence."""
    match tone(result):
        case Tone.INCOMPLETE:
            return f"Not complete: {_uncovered(result)}; {_so_far(result)}."
        case Tone.FOUND:
            return f"{_missing(result)}."
        case Tone.FINE:
            return f"Nothing is missing: {_all_found(result)}."


def _missing(result: GapResult) -> str:
    count = result.totals.unreplicated
    names = [topic.topic for topic in result.topics if topic.counts.unreplicated]
    where = f"topic {plain(names[0])}" if len(names) == 1 else f"{len(names):,} topics"
    return f"{plural(count, 'record')} of {where} {be(count)} missing on {plain(result.target)}"


def _uncovered(result: GapResult) -> str:
    topics = sum(item.partition is None for item in result.not_compared)
    partitions = len(result.not_compared) - topics
    parts = [plural(topics, "topic")] * (topics > 0)
    parts += [plural(partitions, "partition")] * (partitions > 0)
    said = [f"{' and '.join(parts)} could not be compared"] if parts else []
    undecided = result.totals.undecided
    if undecided:
        said.append(f"{plural(undecided, 'offset')} {be(undecided)} undecided")
    return " and ".join(said)


def _so_far(result: GapResult) -> str:
    totals = result.totals
    if totals.unreplicated:
        return f"in the rest, {_missing(result)}"
    if totals.read_from_source == 0:
        return "no record was compared"
    return f"nothing is missing among the {plural(totals.read_from_source, 'record')} compared"


def _all_found(result: GapResult) -> str:
    totals = result.totals
    read, target = totals.read_from_source, plain(result.target)
    if read == 0:
        return f"{plain(result.source)} holds no record in {plural(len(result.topics), 'topic')}"
    gone = totals.superseded + totals.expired
    if not gone:
        return f"every one of {plural(read, 'record')} was found on {target}"
    found = f"of {plural(read, 'record')} {number(read - gone)} were found on {target}"
    return f"{found} and {number(gone)} it no longer needs to hold (superseded or expired)"


def circumstances(result: GapResult) -> str:
    """Of what and as of when this is."""
    return (
        f"link {plain(result.link)}, {plain(result.source)} to {plain(result.target)}, scope "
        f"{plain(result.scope)}, offsets as of {utc(_freeze_ms(result))} UTC, "
        f"took {result.seconds:.1f} s{_ENGINES[result.engine]}"
    )


def total_lines(result: GapResult) -> tuple[Line, ...]:
    """Every total with what it means."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    return (
        Line("read from source", totals.read_from_source, f"committed records of {source}"),
        Line("read from target", totals.read_from_target, f"committed records of {target}"),
        Line("unreplicated", totals.unreplicated, f"on {source}, with no equal on {target}"),
        Line(
            "superseded",
            totals.superseded,
            f"not on {target}, which is compacted and holds something later of their key",
        ),
        Line(
            "expired",
            totals.expired,
            f"not on {target}, which may have deleted them: it cannot be told any more",
        ),
        Line(
            "undecided",
            totals.undecided,
            f"offsets of {source} behind the last stable one: transactions that have not ended",
        ),
        Line(
            "only on target",
            totals.only_on_target,
            f"on {target}, with no equal on {source}: for example written since a failover",
        ),
        Line(
            "duplicated on target",
            totals.duplicated_on_target,
            f"further copies on {target} of records that {source} holds fewer times",
        ),
    )


def order_lines(result: GapResult) -> tuple[Line, ...]:
    """What copying the missing records would do; a count of None was not checked."""
    order, target = result.order, plain(result.target)
    within = "of their key" if result.within is OrderScope.KEY else "in their partition"
    return (
        Line("safe", order.safe, f"{target} holds nothing later {within}: a copy keeps order"),
        Line(
            "conflicting",
            order.conflicting,
            f"{target} holds something later {within}: a copy would put the older behind the "
            "newer; the owner of the data decides",
        ),
        Line("unkeyed", order.unkeyed, "no key, so no order by key to keep or to break"),
        Line("inversions", order.inversions, f"replicated records in another order on {target}"),
    )


def uncompared_parts(result: GapResult) -> tuple[UncomparedPart, ...]:
    """What could not be compared, partitions with the same topic and reason together."""
    places: dict[tuple[str, str], list[int]] = {}
    for item in result.not_compared:
        numbers = places.setdefault((item.topic, item.reason), [])
        numbers += [] if item.partition is None else [item.partition]
    return tuple(
        UncomparedPart(plain(topic), _runs(sorted(numbers)) or "all partitions", sentence(reason))
        for (topic, reason), numbers in places.items()
    )


def _runs(numbers: list[int]) -> str:
    """`0-3, 7` for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n <= runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def offsets(gap: PartitionGap) -> str:
    """The first missing run of offsets and how many there are beside it."""
    runs = max(gap.ranges_total, len(gap.ranges))
    more = f" +{plural(runs - 1, 'run')}" if runs > 1 else ""
    return "".join(f"{a}-{b}" if b > a else f"{a}" for a, b in gap.ranges[:1]) + more


def disorder(result: GapResult) -> tuple[str, ...]:
    """What a look at the order found; nothing where nobody looked."""
    found, count = result.inversions, result.order.inversions
    if found is None or count is None:
        return ()
    target, within = plain(result.target), _WITHIN[result.within]
    if not count:
        return (f"Replicated records {within} have kept their order on {target}.",)
    said = ", ".join(_said(each) for each in found[:EXAMPLES])
    more = ", and so on (inversions/ has them all)" if count > EXAMPLES else ""
    verb = "stands" if count == 1 else "stand"
    return (
        f"{plural(count, 'replicated record')} {verb} on {target} before a record {within} that"
        f" {plain(result.source)} has in front: {said}{more}.",
    )


def _said(each: Inversion) -> str:
    place = f"{plain(each.topic)}-{each.partition}"
    there = "" if each.partition == each.target_partition else f" in {each.target_partition}"
    return (
        f"{place} {number(each.offset)} (there at {number(each.target_offset)}{there}) and"
        f" {number(each.earlier_offset)} (there at {number(each.earlier_target_offset)})"
    )


def ledger_facts(result: GapResult) -> tuple[str, ...]:
    """What the ledger gave to this run, and what of it did not hold any more."""
    use = result.ledger
    if use is None:
        return ()
    said = [f"The ledger {plain(use.where)} knew nothing of it: everything was read."]
    if use.oldest_ms is not None:
        said = [
            f"{plural(use.offsets_known, 'offset')} of both sides were not read again: the ledger"
            f" has their digests. The oldest of them are {age(use.oldest_ms, result.started)}."
        ]
    reasons = Counter((f.reason, f.side) for f in use.forgotten)
    said += [
        f"The ledger of {plural(count, 'partition')} of the {side} was set aside, and these were "
        f"read again: {plain(reason)}."
        for (reason, side), count in reasons.items()
    ]
    if not use.kept:
        said.append(f"What was read now is not in the ledger: {plain(use.why_not)}.")
    return tuple(said)


def _before_the_tail(result: GapResult) -> tuple[str, ...]:
    """What lies before the windows of a tail."""
    windows = [p.window for p in result.partitions if p.window and not p.window.whole]
    if not windows:
        return ()
    first, *others = windows
    evidence = plain(f"{first.evidence} ({first.topic}-{first.partition})")
    more = f", and so on for {plural(len(others), 'more')}" if others else ""
    return (
        f"Whether anything is missing before the tail, in {plural(len(windows), 'partition')}: "
        f"{evidence}{more}. Nothing was missing in the stretch of "
        f"{number(min(w.margin for w in windows))} offsets or more before these places.",
        "Copies made twice of records before the tail count as only on the target.",
    )


def known(result: GapResult) -> tuple[str, ...]:
    """What is true as of the freeze."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    read = (
        f"{plural(totals.read_from_source, 'record')} of {plural(len(result.topics), 'topic')} "
        f"({plural(len(tuple(result.partitions)), 'partition')}) were read from {source}, "
        f"{number(totals.read_from_target)} from {target}."
    )
    count = totals.only_on_target
    only = (f"{plural(count, 'record')} {be(count)} only on {target}.",) if count else ()
    return (read, *facts(result), *only)


def facts(result: GapResult) -> tuple[str, ...]:
    """What is true of the missing records, apart from their number."""
    target = plain(result.target)
    said = [_span(result)] if result.totals.unreplicated else []
    absent = [topic for topic in result.topics if _absent(topic, result)]
    if absent:
        named = plain(absent[0].target_topic) if len(absent) == 1 else plural(len(absent), "topic")
        said.append(f"{target} lacks {named}: everything in it counts as missing.")
    misplaced = sum(p.misplaced for p in result.partitions)
    if misplaced:
        said.append(
            f"{plural(misplaced, 'missing record')} {be(misplaced)} on {target}, but in another "
            "partition."
        )
    return (*said, *disorder(result), *ledger_facts(result))


def oldest(result: GapResult) -> int | None:
    """Timestamp of the oldest missing record that has one."""
    times = [p.oldest_timestamp for p in result.partitions if p.counts.unreplicated]
    return min((at for at in times if at is not None and at >= 0), default=None)


def _span(result: GapResult) -> str:
    first = oldest(result)
    times = [p.newest_timestamp for p in result.partitions if p.counts.unreplicated]
    last = max((at for at in times if at is not None), default=None)
    if first is None or last is None:
        return "The missing records carry no time."
    old = age(first, result.started)
    return (
        f"The oldest missing record is from {utc(first)} UTC{f' ({old})' if old else ''}, "
        f"the newest from {utc(last)} UTC."
    )


def _absent(topic: TopicGap, result: GapResult) -> bool:
    if any(item.topic == topic.topic for item in result.not_compared):
        return False
    return bool(topic.partitions) and all(p.target_range is None for p in topic.partitions)


def unknown(result: GapResult) -> tuple[str, ...]:
    """What this run does not tell."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    said = []
    if result.not_compared:
        said.append("What is missing in the parts that could not be compared (listed below).")
    if totals.undecided:
        said.append(
            f"Whether {plural(totals.undecided, 'offset')} of {source} at or behind the last "
            "stable offset will count: their transactions had not ended."
        )
    if totals.expired:
        said.append(
            f"Whether {plural(totals.expired, 'record')} ever reached {target}: its retention has "
            "passed them."
        )
    said += _before_the_tail(result)
    if result.order.inversions is None:
        said.append(
            f"Whether replicated records kept their order on {target}: not checked, --order does."
        )
    said.append(
        f"What was written after {utc(_freeze_ms(result))} UTC, when the offsets were frozen."
    )
    return tuple(said)


def _freeze_ms(result: GapResult) -> int:
    return int(result.started.timestamp() * 1000)


@collected
def next_steps(result: GapResult) -> Iterator[Step]:
    """What to do now, most urgent first."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    missing = totals.unreplicated
    if not result.complete:
        causes = ["clear the reasons listed under not compared"] * bool(result.not_compared)
        causes += [f"let open transactions on {source} end"] * bool(totals.undecided)
        what = " and ".join(causes)
        yield Step(
            f"{what[0].upper()}{what[1:]}, then run drctl gap again.",
            "Until it ends with exit code 0 or 1 nobody can say that nothing else is missing.",
        )
    if missing and (totals.only_on_target or result.order.conflicting):
        yield Step(
            f"Do not start the old replication from {source} to {target} while applications write"
            f" to {target}.",
            "It would go on where it stopped and append what it had not copied behind newer "
            f"records of {target}.",
        )
    elif missing:
        yield Step(
            f"Find out whether replication from {source} to {target} still runs before you act.",
            f"No record was found that only {target} holds, so this may be plain lag: then let it "
            "catch up and run drctl gap again.",
        )
    if missing or not result.complete:
        what = "The missing records" if missing else "Records of unknown fate"
        yield Step(
            f"Do not truncate, re-create or mirror over topics of {source}.",
            f"{what} may be nowhere else.",
        )
    if missing:
        yield from _about_the_missing(result, source, target)
        return
    if result.complete:
        yield Step(
            "Nothing has to be brought over.",
            f"This is about what {source} held when its offsets were frozen. If it has "
            "taken writes since, run drctl gap again.",
        )
    if result.complete and totals.only_on_target:
        yield Step(
            f"Going back to {source} needs {plural(totals.only_on_target, 'record')} that only "
            f"{target} holds.",
            f"They have to reach {source} before applications return to it.",
        )


def _about_the_missing(result: GapResult, source: str, target: str) -> Iterator[Step]:
    old = age(oldest(result), result.started)
    yield Step(
        f"Look at the retention of these topics on {source}.",
        "It goes on deleting while you decide"
        f"{f'; the oldest missing record is {old}' if old else ''}.",
    )
    yield Step(
        f"Keep {plain(result.out)}.",
        f"Its folder {plain(result.records_path)} (Parquet) has a row for every missing record: "
        "topic, partition, offset, timestamp, key, size, order; the values are only on "
        f"{source}. Its {DOCUMENT} has the numbers of every partition.",
    )
    said = [f"{number(line.count)} {line.name}" for line in order_lines(result) if line.count]
    link, out = (quote(each) for each in (result.link, result.out))
    yield Step(
        "Decide what to bring over, by what a copy would do to order.",
        f"{', '.join(said)}: what that means stands under order. `drctl reconcile {out} --policy"
        f" copy` shows what bringing them over would do, and what was decided before; where clients"
        f" are on {target} by now, `drctl failback --check-order --link {link}` says"
        " what comes first. Neither writes anything.",
    )


_STYLES = {Tone.FINE: "bold green", Tone.FOUND: "bold red", Tone.INCOMPLETE: "bold yellow"}
WORST = 10
BLIND = 10


@view
def gap_table(result: GapResult) -> Iterator[Part]:
    """What a tired person needs, in 80 columns and up; what to do stands last, by the prompt."""
    yield Text(verdict(result), _STYLES[tone(result)])
    yield Text(circumstances(result), "dim")
    yield from ("", _numbers(total_lines(result)))
    gaps = worst_partitions(result)
    if gaps:
        yield heading("Worst partitions")
        rows = [_worst_cells(result, *each) for each in gaps]
        columns = ("Topic", "Part.", "Missing", "Size", "Source offsets", "Oldest")
        numbers = ("Part.", "Missing", "Size", "Oldest")
        yield from listing(
            rows, tuple, *columns, numbers=numbers, most=WORST, what="partition", indented=True
        )
    if gaps or result.order.inversions:
        yield from (heading("What copying would do to order"), _numbers(order_lines(result)))
    if found := facts(result):
        yield from (heading("Known"), Items(found))
    yield from (heading("Unknown"), Items(unknown(result)))
    yield from uncompared(
        [f"{b.topic} ({b.partitions}): {b.reason}" for b in uncompared_parts(result)]
    )
    steps = [f"{step.what} {step.why}" for step in next_steps(result)]
    yield from (heading("Do now"), Items(steps, numbered=True))
    yield f"\nPage: {plain(result.out)}/{PAGE}"


def worst_partitions(result: GapResult) -> Sequence[tuple[str, PartitionGap]]:
    """Topic and partition of everything with a gap, the worst first."""
    gaps = [(t.topic, p) for t in result.topics for p in t.partitions if p.counts.unreplicated]
    return sorted(gaps, key=lambda pair: (-pair[1].counts.unreplicated, pair[0], pair[1].partition))


def uncompared(lines: Sequence[str]) -> Iterator[Part]:
    """What could not be compared, as far as there is room."""
    if lines:
        rest = [f"and {number(len(lines) - BLIND)} more"] if len(lines) > BLIND else []
        yield from (heading("Not compared"), Items([*lines[:BLIND], *rest]))


def _numbers(lines: Sequence[Line]) -> Table:
    """Numbers with their meaning; those that are zero in one line."""
    rows = [
        (f"  {line.name}", number(line.count), Text(line.meaning, "dim"))
        for line in lines
        if line.count
    ]
    none = ", ".join(line.name for line in lines if line.count == 0)
    return Table([*rows, *([("  none", "0", Text(none, "dim"))] if none else ())], numbers=(0, 1))


def _worst_cells(result: GapResult, topic: str, gap: PartitionGap) -> tuple[str, ...]:
    old = age(gap.oldest_timestamp, result.started)
    row = (number(gap.counts.unreplicated), size(gap.bytes), offsets(gap))
    return plain(topic), str(gap.partition), *row, old
