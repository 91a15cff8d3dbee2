"""Estimates, duplicate events and truncations in words.

All text that came from a cluster is made printable here. An estimate never claims an exact number.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from drctl.model.estimate import (
    ASSUMED,
    MEANINGS,
    EstimateResult,
    Missing,
    PartitionEstimate,
    Uncertainty,
)
from drctl.model.event_duplicates import EventDuplicates, PartitionEvents
from drctl.model.gap import Export, GapResult, NotCompared, TruncatedPartition, Truncation
from drctl.model.text import option, plural, quote
from drctl.views import gap_text
from drctl.views.text import be, collected, number, plain, sentence, size, utc
from drctl.views.view import Items, Part, Table, Text, heading, listing, view

NO_PROOF = "An estimate is not proof: run drctl gap --scope tail or full."
Row = tuple[str, PartitionEstimate]
T = TypeVar("T")


def verdict(result: EstimateResult) -> str:
    """Return the headline: the answer in one sentence."""
    totals, target = result.totals, plain(result.target)
    if not totals.partitions:
        return f"Estimate: no partitions could be checked. {NO_PROOF}"
    if not totals.diverging:
        seen = plural(totals.partitions, "partition")
        return f"Estimate: no gap visible in {seen}. {NO_PROOF}"
    named = sorted({topic for topic, _ in worst(result)})
    where = f"topic {plain(named[0])}" if len(named) == 1 else plural(len(named), "topic")
    return (
        f"Estimate: about {plural(totals.missing.estimate, 'record')} of {where} "
        f"{be(totals.missing.estimate)} not replicated to {target} ({bounds(totals.missing)})."
        f" {NO_PROOF}"
    )


def circumstances(result: EstimateResult) -> str:
    """Describe the link, the scope, and the time of the offsets."""
    at = int(result.started.timestamp() * 1000)
    return (
        f"link {plain(result.link)}, {plain(result.source)} to {plain(result.target)}, scope "
        f"estimate, offsets as of {utc(at)} UTC, took {result.seconds:.1f} s; no records were read"
    )


def bounds(missing: Missing) -> str:
    """Return `at least 3, at most 10`."""
    return f"at least {number(missing.at_least)}, at most {number(missing.at_most)}"


def worst(result: EstimateResult) -> tuple[Row, ...]:
    """List all partitions that may have unreplicated records, the largest estimate first."""
    rows = [(t.topic, p) for t in result.topics for p in t.partitions if p.diverges]

    def weight(row: Row) -> tuple[int, int, str, int]:
        topic, found = row
        return -found.missing.estimate, -found.missing.at_most, topic, found.partition or 0

    return tuple(sorted(rows, key=weight))


def place(topic: str, partition: PartitionEstimate) -> str:
    """Return `orders-3`, or the topic if its partitions are counted together."""
    name = plain(topic)
    return name if partition.partition is None else f"{name}-{partition.partition}"


def begin(result: EstimateResult, topic: str, partition: PartitionEstimate) -> str:
    """Say how long a partition has differed."""
    about = f"about {plural(partition.missing.estimate, 'record')}"
    where = place(topic, partition)
    if Uncertainty.NOT_ON_TARGET in partition.uncertainty:
        since = _since(partition.diverges_from, result)
        return f"{where} does not exist on {plain(result.target)}: {about}{since}."
    if partition.stopped_at is not None:
        return f"Replication of {where} stopped: {about}{_since(partition.stopped_at, result)}."
    if partition.diverges_from is not None:
        return f"{where} differs{_since(partition.diverges_from, result)}: {about}."
    return f"{where} differs: {about}, since an unknown time."


def _since(timestamp_ms: int | None, result: EstimateResult) -> str:
    if timestamp_ms is None:
        return ""
    return f" since {utc(timestamp_ms)} UTC"


def known(result: EstimateResult) -> tuple[str, ...]:
    """List what the offsets show apart from unreplicated records."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    lines = []
    if totals.ahead:
        lines.append(
            f"{target} has about {plural(totals.ahead_on_target, 'offset')} more than {source} in "
            f"{plural(totals.ahead, 'partition')}: written there, or duplicated."
        )
    if totals.undecided:
        lines.append(
            f"{plural(totals.undecided, 'offset')} of {source} {be(totals.undecided)} undecided: "
            "their transactions were open."
        )
    return tuple(lines)


def uncertain(result: EstimateResult) -> tuple[str, ...]:
    """List why the numbers may be wrong, the most frequent reason first."""
    found: Counter[Uncertainty] = Counter(
        doubt for t in result.topics for p in t.partitions for doubt in p.uncertainty
    )
    lines = [
        f"{plural(count, 'topic' if doubt is Uncertainty.WHOLE_TOPIC else 'partition')}: "
        f"{MEANINGS[doubt]}."
        for doubt, count in found.most_common()
    ]
    return (*lines, f"Assumption: {ASSUMED}.")


@collected
def next_steps(result: EstimateResult) -> Iterator[str]:
    """List what to do now, the most urgent first."""
    source, target = plain(result.source), plain(result.target)
    named = {topic for topic, _ in worst(result)}
    only = f" {option('--topic', next(iter(named)))}" if len(named) == 1 else ""
    if named and result.totals.ahead:
        yield (
            f"Do not restart replication from {source} to {target}: it would append unreplicated "
            f"records after newer records on {target}."
        )
    elif named:
        yield (
            f"Check whether replication from {source} to {target} is running. If so, this may be "
            "replication lag: estimate again in a minute and see whether the numbers fall."
        )
    if named:
        yield (
            f"Do not truncate, delete or recreate these topics on {source}, and check their "
            "retention: the unreplicated records may exist nowhere else."
        )
    if result.not_compared:
        yield "Fix the reasons listed under Not compared: those partitions were not checked."
    over = option("--link", result.link)
    yield f"Get proof and a list of the records:\ndrctl gap --scope full{only} {over}"


def not_compared(result: EstimateResult) -> tuple[str, ...]:
    """List what was not checked, one line each."""
    return tuple(map(_reason, result.not_compared))


def _reason(item: NotCompared) -> str:
    place = plain(item.topic)
    if item.partition is not None:
        place += f"-{item.partition}"
    return f"{place}: {sentence(item.reason)}"


def event_verdict(result: EventDuplicates) -> str:
    """Return the headline: the answer in one sentence."""
    totals = result.totals
    events = plural(totals.events, "event")
    if totals.repeated:
        found = f"{number(totals.repeated)} of {events} {be(totals.repeated)} duplicates"
    elif totals.events:
        found = f"no duplicates among {events}"
    else:
        found = "no events with a known identity found"
    return f"{found[0].upper()}{found[1:]}." if result.complete else f"Not complete: {found}."


def event_circumstances(result: EventDuplicates) -> str:
    """Describe the cluster, the topics, and the time of the offsets."""
    topics = ", ".join(dict.fromkeys(plain(each.topic) for each in result.partitions))
    return (
        f"cluster {plain(result.cluster)}, {topics or 'no topics'}, identity:"
        f" {result.format.value}, offsets as of {result.started:%Y-%m-%d %H:%M:%S} UTC,"
        f" took {result.seconds:.1f} s"
    )


def unknown(result: EventDuplicates) -> tuple[str, ...]:
    """List what could not be checked."""
    lines = []
    if lost := result.totals.unidentified:
        lines.append(
            f"Not checked: {plural(lost, 'record')} without a known identity (JSON with a source"
            " block of PostgreSQL, MySQL, MariaDB or MongoDB)."
        )
    return (*lines, *map(_reason, result.not_compared))


def where(each: PartitionEvents) -> str:
    """Return the offset range of the duplicate events in a partition."""
    if each.first is None or each.last is None:
        return "-"
    first, last = each.first.offset, each.last
    return number(first) if first == last else f"{number(first)}-{number(last)}"


def first(each: PartitionEvents) -> str:
    """Describe the first duplicate event of a partition."""
    assert each.first is not None
    before = f"{plain(each.topic)}-{each.first.first_partition}"
    identity = f": {sentence(each.identity)}" if each.identity else ""
    return (
        f"{plain(each.topic)}-{each.partition} offset {number(each.first.offset)} duplicates"
        f" {before} offset {number(each.first.first_offset)}{identity}"
    )


@dataclass(frozen=True, slots=True)
class Procedure:
    """A way to make the source a copy of the target again, and what it destroys."""

    name: str
    records: int
    bytes: int
    meaning: str


def procedures(result: GapResult, found: Truncation) -> tuple[Procedure, ...]:
    """Compare truncate-and-restore (offset-preserving mirrors) with a rebuild from scratch."""
    totals, source, target = found.totals, plain(result.source), plain(result.target)
    cut = sum(each.cut_from is not None for each in found.partitions)
    back = f"the records that {target} holds are copied back"
    others = totals["others"]
    too = f", and destroys {plural(others, 'superseded or expired record')}" if others else ""
    return (
        Procedure(
            "truncate and restore",
            totals["records"],
            totals["bytes"],
            f"truncates {plural(cut, 'partition')} of {source} at the first difference,"
            f" {plural(totals['offsets_cut'], 'offset')} in total; {back}",
        ),
        Procedure(
            "rebuild or re-mirror",
            totals["records"] + others,
            totals["bytes"] + totals["other_bytes"],
            f"deletes topics on {source} and copies them from {target}{too}",
        ),
    )


def worst_of(found: Truncation) -> list[TruncatedPartition]:
    """List the partitions, the largest loss first."""
    return sorted(found.partitions, key=lambda p: (-p.records, -p.others, p.topic, p.partition))


def headline(result: GapResult, found: Truncation) -> str:
    """Return the headline: how many records would be destroyed."""
    totals, source = found.totals, plain(result.source)
    if not found.partitions:
        rest = "" if result.complete else " of what was compared"
        return f"Nothing{rest} would be destroyed: {plain(result.target)} holds all of it."
    every = totals["records"] + totals["others"]
    return (
        f"Up to {plural(every, 'record')} ({size(totals['bytes'] + totals['other_bytes'])}) in"
        f" {plural(len(found.partitions), 'partition')} would be destroyed: they exist only on"
        f" {source}."
    )


def not_covered(result: GapResult) -> tuple[str, ...]:
    """List what was not compared and would be destroyed, too."""
    lines = []
    if result.not_compared:
        lines.append("Partitions that were not compared (see drctl gap) would be destroyed, too.")
    if result.totals.undecided:
        lines.append(
            f"Open transactions ({plural(result.totals.undecided, 'offset')}) would be destroyed,"
            " too."
        )
    if any(p.window and not p.window.whole for p in result.partitions):
        lines.append("Only the tail was compared: use --scope full before a rebuild.")
    return tuple(lines)


def kept(result: GapResult, found: Truncation) -> str:
    """Say where the records were exported, or how to export them; empty if there are none."""
    if found.export is not None:
        return _exported(found.export, found.totals["others"])
    records, others = found.totals["records"], found.totals["others"]
    if not records and not others:
        return ""
    too = " --include-superseded" if others else ""
    over = option("--link", result.link)
    advice = f"Export them first:\ndrctl gap truncation --scope full --export DIR{too} {over}"
    if not records:
        return advice
    alone = " (unreplicated records only)" if others else ""
    return (
        f"{advice}\nor{alone}:\n"
        f"drctl reconcile {quote(result.out)} --policy export --conflicting export --execute"
    )


def _exported(export: Export, others: int) -> str:
    text = f"Exported: {plural(export.records, 'record')} to {plain(export.folder)}"
    text += _gone(export.gone)
    if export.others is not None:
        more = plural(export.others, "superseded or expired record")
        text += f"; {more} to {plain(export.folder)}/others{_gone(export.others_gone)}."
    elif others:
        text += ". Superseded and expired records: not exported. Add --include-superseded."
    else:
        text += "."
    if export.appended:
        text += (
            f" Not exported: {plural(export.appended, 'offset')} appended to the source since the"
            " comparison. Fence the source and run the export again."
        )
    return text


def _gone(count: int) -> str:
    """Count the records that could not be exported."""
    return f" ({number(count)} already deleted on the source)" if count else ""


def offsets(each: TruncatedPartition) -> str:
    """Return the offsets that a truncation removes."""
    return "-" if each.cut_from is None else f"{number(each.cut_from)}-{number(each.end - 1)}"


WORST = 10
TRUNCATION_WORST = 20
MOST_BEGINS = 3
_EVENT_STYLES = {0: "bold green", 1: "bold red", 5: "bold yellow"}


@view
def truncation_table(result: GapResult, found: Truncation) -> Iterator[Part]:
    """Show what would be destroyed; how to save it comes last, next to the prompt."""
    good = "bold green" if result.complete else "bold"
    yield Text(headline(result, found), "bold red" if found.partitions else good)
    yield Text(gap_text.circumstances(result), "dim")
    if found.partitions:
        rows = (
            (f"  {p.name}", plural(p.records, "record"), size(p.bytes), Text(p.meaning, "dim"))
            for p in procedures(result, found)
        )
        yield from ("", Table(rows, numbers=(1, 2)), "")
        columns = ("Part.", "Truncated", "Only on source", "Size", "Superseded, expired", "Size")
        yield from _partitions(worst_of(found), _truncated, columns, TRUNCATION_WORST)
    yield from (Text(each, "yellow") for each in not_covered(result))
    if reported := kept(result, found):
        yield f"\n{reported}"


@view
def estimate_table(result: EstimateResult) -> Iterator[Part]:
    """Show the estimate in 80 columns or more; the next steps come last, next to the prompt."""
    yield Text(verdict(result), "bold yellow")
    yield Text(circumstances(result), "dim")
    rows = worst(result)
    if rows:
        since = [begin(result, *row) for row in rows[:MOST_BEGINS]]
        yield from (heading("Since when"), Items(since), heading("Worst partitions"))
        columns = ("Part.", "About", "At least", "At most", "Differs from (UTC)")
        yield from _partitions(rows, _estimated, columns, WORST)
    if seen := known(result):
        yield from (heading("Also found"), Items(seen))
    yield from (heading("Uncertainty"), Items(uncertain(result)))
    yield from gap_text.uncompared(not_compared(result))
    yield from (heading("Do now"), Items(next_steps(result), numbered=True))


@view
def event_table(result: EventDuplicates) -> Iterator[Part]:
    """Show the duplicates, the worst partitions first."""
    yield Text(event_verdict(result), _EVENT_STYLES[result.exit_code])
    yield Text(event_circumstances(result), "dim")
    worst = sorted(
        (each for each in result.partitions if each.counts.repeated or each.counts.unidentified),
        key=lambda each: (-each.counts.repeated, -each.counts.unidentified),
    )
    columns = ("Part.", "Events", "Duplicates", "Tombstones", "Unknown", "Offsets")
    yield ""
    yield from _partitions(worst, _events, columns, WORST)
    yield from (f"  {first(each)}" for each in [each for each in worst if each.first][:WORST])
    yield from (Text(line, "yellow") for line in unknown(result))


def _partitions(
    things: Sequence[T], cells: Callable[[T], Iterable[str]], columns: tuple[str, ...], most: int
) -> Iterator[Part]:
    return listing(
        things,
        cells,
        "Topic",
        *columns,
        numbers=columns,
        most=most,
        what="partition",
        indented=True,
    )


def _truncated(each: TruncatedPartition) -> tuple[str, ...]:
    numbers = (number(each.records), size(each.bytes), number(each.others), size(each.other_bytes))
    return plain(each.topic), str(each.partition), offsets(each), *numbers


def _estimated(row: Row) -> tuple[str, ...]:
    topic, found = row
    part = "all" if found.partition is None else str(found.partition)
    counts = (found.missing.estimate, found.missing.at_least, found.missing.at_most)
    return plain(topic), part, *map(number, counts), utc(found.diverges_from)


def _events(each: PartitionEvents) -> tuple[str, ...]:
    counts = each.counts
    numbers = (counts.events, counts.repeated, counts.tombstones, counts.unidentified)
    return plain(each.topic), str(each.partition), *map(number, numbers), where(each)
