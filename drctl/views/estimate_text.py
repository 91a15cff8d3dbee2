"""What an estimate, repeated events and a truncation mean, in words.

Pure: a result in, sentences out. Everything that came from a cluster is made printable
here. No sentence says that something is missing, or that nothing is, without saying "about".
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
from drctl.model.text import option, quote
from drctl.views import gap_text
from drctl.views.text import age, be, collected, number, plain, plural, sentence, size, utc
from drctl.views.view import Items, Part, Table, Text, heading, listing, view

NO_PROOF = "An estimate is no proof: run drctl gap --scope tail or full."
Row = tuple[str, PartitionEstimate]
T = TypeVar("T")


def verdict(result: EstimateResult) -> str:
    """The answer in one sentence."""
    totals, target = result.totals, plain(result.target)
    if not totals.partitions:
        return f"Estimate: nothing could be looked at. {NO_PROOF}"
    if not totals.diverging:
        seen = plural(totals.partitions, "partition")
        return f"Estimate: no difference that would be a gap shows in {seen}. {NO_PROOF}"
    named = sorted({topic for topic, _ in worst(result)})
    where = f"topic {plain(named[0])}" if len(named) == 1 else f"{len(named):,} topics"
    return (
        f"Estimate: about {plural(totals.missing.estimate, 'record')} of {where} "
        f"{be(totals.missing.estimate)} missing on {target} ({bounds(totals.missing)}). {NO_PROOF}"
    )


def circumstances(result: EstimateResult) -> str:
    """Of what and as of when this is."""
    at = int(result.started.timestamp() * 1000)
    return (
        f"link {plain(result.link)}, {plain(result.source)} to {plain(result.target)}, scope "
        f"estimate, offsets as of {utc(at)} UTC, took {result.seconds:.1f} s; no record was read"
    )


def bounds(missing: Missing) -> str:
    """`at least 3, at most 10`; `exactly` is never said."""
    return f"at least {number(missing.at_least)}, at most {number(missing.at_most)}"


def worst(result: EstimateResult) -> tuple[Row, ...]:
    """All partitions that may lack something, those that seem to lack most first."""
    rows = [(t.topic, p) for t in result.topics for p in t.partitions if p.diverges]

    def weight(row: Row) -> tuple[int, int, str, int]:
        topic, found = row
        return -found.missing.estimate, -found.missing.at_most, topic, found.partition or 0

    return tuple(sorted(rows, key=weight))


def place(topic: str, partition: PartitionEstimate) -> str:
    """`orders-3`; the topic where partitions are counted together."""
    name = plain(topic)
    return name if partition.partition is None else f"{name}-{partition.partition}"


def begin(result: EstimateResult, topic: str, partition: PartitionEstimate) -> str:
    """When a partition began to differ, in one sentence."""
    about = f"about {plural(partition.missing.estimate, 'record')}"
    where = place(topic, partition)
    if Uncertainty.NOT_ON_TARGET in partition.uncertainty:
        since = _since(partition.diverges_from, result)
        return f"{where} is not on {plain(result.target)} at all: {about}{since}."
    if partition.stopped_at is not None:
        return f"Replication of {where} stopped: {about}{_since(partition.stopped_at, result)}."
    if partition.diverges_from is not None:
        return f"{where} differs{_since(partition.diverges_from, result)}: {about}."
    return f"{where} differs, and it cannot be told since when: {about}."


def _since(timestamp_ms: int | None, result: EstimateResult) -> str:
    if timestamp_ms is None:
        return ""
    old = age(timestamp_ms, result.started)
    return f" since {utc(timestamp_ms)} UTC{f' ({old})' if old else ''}"


def known(result: EstimateResult) -> tuple[str, ...]:
    """What the offsets tell beside the missing records."""
    totals, source, target = result.totals, plain(result.source), plain(result.target)
    said = []
    if totals.ahead:
        said.append(
            f"{target} has about {plural(totals.ahead_on_target, 'offset')} more than {source} in "
            f"{plural(totals.ahead, 'partition')}: written there, or copied twice."
        )
    if totals.undecided:
        said.append(
            f"{plural(totals.undecided, 'offset')} of {source} {be(totals.undecided)} undecided: "
            "their transactions had not ended."
        )
    return tuple(said)


def uncertain(result: EstimateResult) -> tuple[str, ...]:
    """Why the numbers may be off, what concerns most partitions first."""
    found: Counter[Uncertainty] = Counter(
        doubt for t in result.topics for p in t.partitions for doubt in p.uncertainty
    )
    said = [
        f"{plural(count, 'topic' if doubt is Uncertainty.WHOLE_TOPIC else 'partition')}: "
        f"{MEANINGS[doubt]}."
        for doubt, count in found.most_common()
    ]
    return (*said, f"Assumed everywhere: {ASSUMED}.")


@collected
def next_steps(result: EstimateResult) -> Iterator[str]:
    """What to do now, most urgent first."""
    source, target = plain(result.source), plain(result.target)
    named = {topic for topic, _ in worst(result)}
    only = f" {option('--topic', next(iter(named)))}" if len(named) == 1 else ""
    if named and result.totals.ahead:
        yield (
            f"Do not start the old replication from {source} to {target}: it would append what it "
            f"had not copied behind what {target} has taken since."
        )
    elif named:
        yield (
            f"Find out whether replication from {source} to {target} still runs. If it does, this "
            "may be plain lag: estimate again in a minute and see whether the numbers fall."
        )
    if named:
        yield (
            f"Do not truncate, re-create or mirror over these topics of {source}, and look at "
            "their retention: the missing records may be nowhere else."
        )
    if result.not_compared:
        yield "Clear the reasons listed under not compared: nothing is known of those partitions."
    yield f"Get proof, and the list of the records: drctl gap --scope full{only}"


def not_compared(result: EstimateResult) -> tuple[str, ...]:
    """What was not looked at, a line each."""
    return tuple(map(_reason, result.not_compared))


def _reason(item: NotCompared) -> str:
    place = plain(item.topic)
    if item.partition is not None:
        place += f"-{item.partition}"
    return f"{place}: {sentence(item.reason)}"


def event_verdict(result: EventDuplicates) -> str:
    """The answer in one sentence."""
    totals = result.totals
    events = plural(totals.events, "event")
    if totals.repeated:
        found = f"{number(totals.repeated)} of {events} are there a second time"
    elif totals.events:
        found = f"none of {events} is there a second time"
    else:
        found = "no event with an identity was found"
    return f"{found[0].upper()}{found[1:]}." if result.complete else f"Not complete: {found}."


def event_circumstances(result: EventDuplicates) -> str:
    """Of what and as of when this is."""
    topics = ", ".join(dict.fromkeys(plain(each.topic) for each in result.partitions))
    return (
        f"cluster {plain(result.cluster)}, {topics or 'no topic'}, by the identity of"
        f" {result.format.value} events, offsets as of {result.started:%Y-%m-%d %H:%M:%S} UTC,"
        f" took {result.seconds:.1f} s"
    )


def unknown(result: EventDuplicates) -> tuple[str, ...]:
    """What this does not tell."""
    said = []
    if lost := result.totals.unidentified:
        said.append(
            f"{plural(lost, 'record')} carry no identity that is known (JSON with a source block of"
            " PostgreSQL, MySQL, MariaDB or MongoDB): nobody can tell whether they are there twice."
        )
    return (*said, *map(_reason, result.not_compared))


def where(each: PartitionEvents) -> str:
    """The stretch in which the repeated events of a partition lie."""
    if each.first is None or each.last is None:
        return "-"
    first, last = each.first.offset, each.last
    return number(first) if first == last else f"{number(first)}-{number(last)}"


def first(each: PartitionEvents) -> str:
    """Its first repeated event."""
    assert each.first is not None
    before = f"{plain(each.topic)}-{each.first.first_partition}"
    told = f": {sentence(each.identity)}" if each.identity else ""
    return (
        f"offset {number(each.first.offset)} of {plain(each.topic)}-{each.partition} is offset"
        f" {number(each.first.first_offset)} of {before} again{told}"
    )


@dataclass(frozen=True, slots=True)
class Procedure:
    """A way to make the source a copy of the target again, and what it costs."""

    name: str
    records: int
    bytes: int
    meaning: str


def procedures(result: GapResult, found: Truncation) -> tuple[Procedure, ...]:
    """Truncate-and-restore of an offset-preserving mirror, and everything that starts anew."""
    totals, source, target = found.totals, plain(result.source), plain(result.target)
    cut = sum(each.cut_from is not None for each in found.partitions)
    back = f"what {target} holds of that comes back from there"
    others = totals["others"]
    too = f": with them go {plural(others, 'superseded or expired record')}" if others else ""
    return (
        Procedure(
            "truncate and restore",
            totals["records"],
            totals["bytes"],
            f"cuts {plural(cut, 'partition')} of {source} where both sides part,"
            f" {plural(totals['offsets_cut'], 'offset')} in all; {back}",
        ),
        Procedure(
            "rebuild or re-mirror",
            totals["records"] + others,
            totals["bytes"] + totals["other_bytes"],
            f"deletes topics of {source} and copies them from {target}{too}",
        ),
    )


def worst_of(found: Truncation) -> list[TruncatedPartition]:
    """The partitions that lose most first."""
    return sorted(found.partitions, key=lambda p: (-p.records, -p.others, p.topic, p.partition))


def headline(result: GapResult, found: Truncation) -> str:
    """What is at stake, in one sentence."""
    totals, source = found.totals, plain(result.source)
    if not found.partitions:
        rest = "" if result.complete else " of what was compared"
        return f"Nothing{rest} would be lost: {plain(result.target)} holds all of it."
    every = totals["records"] + totals["others"]
    return (
        f"Up to {plural(every, 'record')} ({size(totals['bytes'] + totals['other_bytes'])}) of"
        f" {plural(len(found.partitions), 'partition')} are nowhere but on {source}, and would be"
        " destroyed."
    )


def not_covered(result: GapResult) -> tuple[str, ...]:
    """What nobody looked at, and would be destroyed likewise."""
    said = []
    if result.not_compared:
        said.append("What could not be compared (see drctl gap) would be destroyed likewise.")
    if result.totals.undecided:
        said.append(
            f"So would {plural(result.totals.undecided, 'offset')} of transactions that have not"
            " ended."
        )
    if any(p.window and not p.window.whole for p in result.partitions):
        said.append("Nothing was looked at before the tail: use --scope full before a rebuild.")
    return tuple(said)


def kept(result: GapResult, found: Truncation) -> str:
    """Where the records are safe, or how to make them so; empty where there are none."""
    if found.export is not None:
        return _exported(found.export, found.totals["others"])
    records, others = found.totals["records"], found.totals["others"]
    if not records and not others:
        return ""
    too = " --others" if others else ""
    said = f"Export them first: drctl gap --view truncation --export DIR{too}"
    if not records:
        return f"{said}."
    alone = " for the unreplicated ones" if others else ""
    return (
        f"{said}, or{alone} drctl reconcile {quote(result.out)} --policy export --conflicting"
        " export --execute."
    )


def _exported(export: Export, others: int) -> str:
    said = f"Exported: {plural(export.records, 'record')} to {plain(export.folder)}"
    said += _gone(export.gone)
    if export.others is not None:
        more = plural(export.others, "superseded or expired record")
        said += f"; {more} to {plain(export.folder)}/others{_gone(export.others_gone)}."
    elif others:
        said += ". Superseded and expired ones are not among them: --others takes them, too."
    else:
        said += "."
    if export.appended:
        said += (
            f" The source has grown by {plural(export.appended, 'offset')} since the comparison:"
            " what they hold is not exported. Fence the source, and run it again."
        )
    return said


def _gone(count: int) -> str:
    """Of what could not be exported."""
    return f" ({number(count)} more {'was' if count == 1 else 'were'} gone before)" if count else ""


def offsets(each: TruncatedPartition) -> str:
    """Which offsets a cut takes."""
    return "-" if each.cut_from is None else f"{number(each.cut_from)}-{number(each.end - 1)}"


WORST = 10
TRUNCATION_WORST = 20
TOLD = 3
_EVENT_STYLES = {0: "bold green", 1: "bold red", 5: "bold yellow"}


@view
def truncation_table(result: GapResult, found: Truncation) -> Iterator[Part]:
    """What would be destroyed; how to keep it stands last, by the prompt."""
    good = "bold green" if result.complete else "bold"
    yield Text(headline(result, found), "bold red" if found.partitions else good)
    yield Text(gap_text.circumstances(result), "dim")
    if found.partitions:
        rows = (
            (f"  {p.name}", plural(p.records, "record"), size(p.bytes), Text(p.meaning, "dim"))
            for p in procedures(result, found)
        )
        yield from ("", Table(rows, numbers=(1, 2)), "")
        columns = ("Part.", "Cut", "Only here", "Size", "Others", "Size")
        yield from _partitions(worst_of(found), _truncated, columns, TRUNCATION_WORST)
    yield from (Text(each, "yellow") for each in not_covered(result))
    if told := kept(result, found):
        yield f"\n{told}"


@view
def estimate_table(result: EstimateResult) -> Iterator[Part]:
    """What a tired person needs, in 80 columns and up; what to do stands last, by the prompt."""
    yield Text(verdict(result), "bold yellow")
    yield Text(circumstances(result), "dim")
    rows = worst(result)
    if rows:
        since = [begin(result, *row) for row in rows[:TOLD]]
        yield from (heading("Since when"), Items(since), heading("Worst partitions"))
        columns = ("Part.", "About", "At least", "At most", "Differs from (UTC)")
        yield from _partitions(rows, _estimated, columns, WORST)
    if seen := known(result):
        yield from (heading("Also seen"), Items(seen))
    yield from (heading("Uncertain"), Items(uncertain(result)))
    yield from gap_text.uncompared(not_compared(result))
    yield from (heading("Do now"), Items(next_steps(result), numbered=True))


@view
def event_table(result: EventDuplicates) -> Iterator[Part]:
    """What was found, the worst partitions first."""
    yield Text(event_verdict(result), _EVENT_STYLES[result.exit_code])
    yield Text(event_circumstances(result), "dim")
    worst = sorted(
        (each for each in result.partitions if each.counts.repeated or each.counts.unidentified),
        key=lambda each: (-each.counts.repeated, -each.counts.unidentified),
    )
    columns = ("Part.", "Events", "Again", "Tombstones", "Unknown", "Offsets")
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
