"""What an estimate means, in words.

Pure: an `EstimateResult` in, sentences out. Everything that came from a cluster is made printable
here. No sentence says that something is missing, or that nothing is, without saying "about".
"""

from collections import Counter
from collections.abc import Iterator

from drctl.model.estimate import (
    ASSUMED,
    MEANINGS,
    Doubt,
    EstimateResult,
    Missing,
    PartitionEstimate,
)
from drctl.model.pasting import option
from drctl.report.printable import age, number, plain, plural, sentence, utc

NO_PROOF = "An estimate is no proof: run drctl gap --scope tail or full."
Row = tuple[str, PartitionEstimate]


def verdict(result: EstimateResult) -> str:
    """The answer in one sentence."""
    totals, target = result.totals, plain(result.target)
    if not totals.partitions:
        return f"Estimate: nothing could be looked at. {NO_PROOF}"
    if not totals.diverging:
        seen = plural(totals.partitions, "partition")
        return f"Estimate: no difference that would be a gap shows in {seen}. {NO_PROOF}"
    where = _where(result)
    return (
        f"Estimate: about {plural(totals.missing.estimate, 'record')} of {where} "
        f"{_be(totals.missing.estimate)} missing on {target} ({bounds(totals.missing)}). {NO_PROOF}"
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
    return tuple(sorted(rows, key=_weight))


def place(topic: str, partition: PartitionEstimate) -> str:
    """`orders-3`; the topic where partitions are counted together."""
    name = plain(topic)
    return name if partition.partition is None else f"{name}-{partition.partition}"


def begin(result: EstimateResult, topic: str, partition: PartitionEstimate) -> str:
    """When a partition began to differ, in one sentence."""
    about = f"about {plural(partition.missing.estimate, 'record')}"
    where = place(topic, partition)
    if Doubt.NOT_ON_TARGET in partition.uncertainty:
        since = _since(partition.diverges_from, result)
        return f"{where} is not on {plain(result.target)} at all: {about}{since}."
    if partition.stopped_at is not None:
        return f"Replication of {where} stopped: {about}{_since(partition.stopped_at, result)}."
    if partition.diverges_from is not None:
        return f"{where} differs{_since(partition.diverges_from, result)}: {about}."
    return f"{where} differs, and it cannot be told since when: {about}."


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
            f"{plural(totals.undecided, 'offset')} of {source} {_be(totals.undecided)} undecided: "
            "their transactions had not ended."
        )
    return tuple(said)


def uncertain(result: EstimateResult) -> tuple[str, ...]:
    """Why the numbers may be off, what concerns most partitions first."""
    found: Counter[Doubt] = Counter(
        doubt for t in result.topics for p in t.partitions for doubt in p.uncertainty
    )
    said = [
        f"{plural(count, 'topic' if doubt is Doubt.WHOLE_TOPIC else 'partition')}: "
        f"{MEANINGS[doubt]}."
        for doubt, count in found.most_common()
    ]
    return (*said, f"Assumed everywhere: {ASSUMED}.")


def next_steps(result: EstimateResult) -> tuple[str, ...]:
    """What to do now, most urgent first."""
    return tuple(_steps(result))


def not_compared(result: EstimateResult) -> tuple[str, ...]:
    """What was not looked at, a line each."""
    return tuple(
        f"{plain(item.topic)}{'' if item.partition is None else f'-{item.partition}'}: "
        f"{sentence(item.reason)}"
        for item in result.not_compared
    )


def _steps(result: EstimateResult) -> Iterator[str]:
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


def _where(result: EstimateResult) -> str:
    named = sorted({topic for topic, _ in worst(result)})
    return f"topic {plain(named[0])}" if len(named) == 1 else f"{len(named):,} topics"


def _weight(row: Row) -> tuple[int, int, str, int]:
    topic, found = row
    return -found.missing.estimate, -found.missing.at_most, topic, found.partition or 0


def _since(timestamp_ms: int | None, result: EstimateResult) -> str:
    if timestamp_ms is None:
        return ""
    old = age(timestamp_ms, result.started)
    return f" since {utc(timestamp_ms)} UTC{f' ({old})' if old else ''}"


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
