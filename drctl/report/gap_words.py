"""What a gap analysis means, in words: the page and the terminal say the same.

Pure: a `GapResult` in, sentences out. Everything that came from a cluster is made printable here.
"""

from enum import StrEnum

from drctl.model.errors import ExitCode
from drctl.model.gap import Engine, GapResult, TopicGap
from drctl.report.gap_order import disorder
from drctl.report.gap_scope import ledger_facts, taken_for_granted
from drctl.report.printable import age, number, plain, plural, utc


class Tone(StrEnum):
    """The three endings of an analysis."""

    FINE = "nothing missing"
    FOUND = "records missing"
    INCOMPLETE = "not complete"


_TONES = {
    ExitCode.DONE: Tone.FINE,
    ExitCode.FOUND: Tone.FOUND,
    ExitCode.UNKNOWN: Tone.INCOMPLETE,
}


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
    verb = "is" if count == 1 else "are"
    return (
        f"{plural(count, 'record')} {_of_topics(result)} {verb} missing on {plain(result.target)}"
    )


def _of_topics(result: GapResult) -> str:
    names = [topic.topic for topic in result.topics if topic.counts.unreplicated]
    return f"of topic {plain(names[0])}" if len(names) == 1 else f"of {len(names):,} topics"


def _uncovered(result: GapResult) -> str:
    topics = sum(item.partition is None for item in result.not_compared)
    partitions = len(result.not_compared) - topics
    parts = [plural(topics, "topic")] * (topics > 0)
    parts += [plural(partitions, "partition")] * (partitions > 0)
    said = [f"{' and '.join(parts)} could not be compared"] if parts else []
    undecided = result.totals.undecided
    if undecided:
        said.append(f"{plural(undecided, 'offset')} {_be(undecided)} undecided")
    return " and ".join(said)


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


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


_ENGINES = {
    Engine.AUTO: "",
    Engine.SPARK: ", compared by Spark",
    Engine.DIRECT: ", compared without Spark",
}


def circumstances(result: GapResult) -> str:
    """Of what and as of when this is."""
    return (
        f"link {plain(result.link)}, {plain(result.source)} to {plain(result.target)}, scope "
        f"{plain(result.scope)}, offsets as of {utc(_freeze_ms(result))} UTC, "
        f"took {result.seconds:.1f} s{_ENGINES[result.engine]}"
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
    only = (f"{plural(count, 'record')} {_be(count)} only on {target}.",) if count else ()
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
            f"{plural(misplaced, 'missing record')} {_be(misplaced)} on {target}, but in another "
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
    said += taken_for_granted(result)
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
