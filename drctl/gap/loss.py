"""What an unplanned failover probably loses, from what is left of a source that is gone.

Pure: traces in, an estimate out. It is never proof: drctl gap makes it exact once the source is
back. Offsets are counted as records; control records of transactions are among them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from drctl.gap.traces import LONG_S, EndSeen, Pace, Sign, Traces
from drctl.model.topology import TopicPartition

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class LossEstimate:
    """What is probably lost.

    Attributes:
        at_least: records that were seen on the source and are not copied; None where no partition
            tells both.
        records: these, and what was written since at the pace before; None where nothing tells.
        seconds: for how long writes may be lost, until now; None where nothing tells.
        evidence: each piece of it with its age, and what there was none of.
    """

    at_least: int | None
    records: int | None
    seconds: float | None
    words: str
    evidence: tuple[str, ...]


def estimate(traces: Traces, now_ms: int) -> LossEstimate:
    """The best bounds that the traces allow."""
    known, reached = _known(traces), _reached(traces)
    told = known.keys() & reached.keys()
    missing = {p: n for p in sorted(told) if (n := known[p].offset - reached[p]) > 0}
    at_least = sum(missing.values()) if told else None
    until = _until(traces, reached)
    lagging = [known[place].at_ms for place in missing]
    times = [*lagging, *([] if until is None else [until])]
    seconds = max(0, now_ms - min(times)) / 1000 if times else None
    records = None
    paces = best_paces(traces)
    if until is None:
        paces = ()
    by_pace = [(at_least or 0) + _written(pace, until, now_ms) for pace in paces]
    records = by_pace[0] if by_pace else at_least or None
    evidence = tuple(_evidence(traces, paces, told, now_ms))
    found = LossEstimate(at_least, records, seconds, "", evidence)
    return replace(found, words=_words(found, traces, paces, max(by_pace, default=0)))


def best_paces(traces: Traces) -> Sequence[Pace]:
    """The best first: over a while rather than in a burst, and the newest of these."""
    looks = sorted(_whole_looks(traces), reverse=True)
    found = [*traces.paces]
    for (late_ms, there), (early_ms, before) in pairwise(looks):
        if late_ms - early_ms >= LONG_S * 1000 and there >= before:
            span = (late_ms - early_ms) / 1000
            evidence = f"two looks at where partitions ended, {ago(span)} apart"
            found.append(Pace(evidence, (there - before) / span, late_ms, span))
            break
    return sorted(found, key=lambda p: (p.by_record, p.span_s < LONG_S, -p.until_ms))


def _whole_looks(traces: Traces) -> Iterator[tuple[int, int]]:
    """When somebody saw the ends of all partitions, and the sum of them."""
    for ends in traces.ends:
        if ends.exact and traces.places and ends.seen.keys() >= {*traces.places}:
            seen = [ends.seen[place] for place in traces.places]
            yield min(each.at_ms for each in seen), sum(each.offset for each in seen)


def _written(pace: Pace, until: int | None, now_ms: int) -> int:
    return round(pace.per_second * max(0, now_ms - (until or now_ms)) / 1000)


def _known(traces: Traces) -> dict[TopicPartition, EndSeen]:
    """Of each partition the newest true end, or an offset that was seen behind it since then.

    What is older does not count: the topic may have been made anew meanwhile.
    """
    found = _exact(traces)
    for ends in traces.ends:
        for place, seen in ends.seen.items():
            before = found.get(place, EndSeen(-1, seen.at_ms))
            if seen.at_ms >= before.at_ms and seen.offset > before.offset:
                found[place] = seen
    wanted = set(traces.places)
    return {place: seen for place, seen in found.items() if place in wanted}


def _exact(traces: Traces) -> dict[TopicPartition, EndSeen]:
    """The newest true end of each partition."""
    found: dict[TopicPartition, EndSeen] = {}
    for ends in traces.ends:
        for place, seen in ends.seen.items() if ends.exact else ():
            if place not in found or seen.at_ms >= found[place].at_ms:
                found[place] = seen
    return found


def _reached(traces: Traces) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for copied in traces.copied:
        for place, offset in copied.upto.items():
            found[place] = max(offset, found.get(place, offset))
    return found


def _until(traces: Traces, reached: Mapping[TopicPartition, int]) -> int | None:
    """Until when everything is accounted for: copied, or counted as missing."""
    times = []
    if (sign := best_sign(traces.signs)) is not None:
        times.append(sign.at_ms)
    exact = _exact(traces)
    if traces.places and all(place in exact and place in reached for place in traces.places):
        times.append(min(exact[place].at_ms for place in traces.places))
    return max(times, default=None)


def best_sign(signs: Sequence[Sign]) -> Sign | None:
    """The newest; a record's own timestamp only where there is nothing else."""
    better = [sign for sign in signs if not sign.by_record]
    return max(better or signs, key=lambda sign: sign.at_ms, default=None)


def _words(found: LossEstimate, traces: Traces, paces: Sequence[Pace], most: int) -> str:
    length = f" of the last {ago(found.seconds)}" if found.seconds is not None else ""
    sign = best_sign(traces.signs)
    by = " by the newest copy's own timestamp" if length and sign and sign.by_record else ""
    if paces and found.records is not None:
        pace = f"{paces[0].per_second:,.1f} records a second"
        up_to = f" (up to {most:,} by another pace)" if most > found.records else ""
        if found.at_least is None:
            about = f"about {found.records:,} records{up_to}{length}{by} are probably lost"
            return f"{about}, at {pace} as before; nobody saw where {traces.source} ended"
        return (
            f"{found.at_least:,} to about {found.records:,} records{up_to}{length}{by} are probably"
            f" lost: {found.at_least:,} were seen on {traces.source} and are not copied; the others"
            f" are there if it was written to until now, at {pace}"
        )
    if found.at_least:
        return (
            f"at least {found.at_least:,} records{length}{by} are probably lost; how many more were"
            " written since, nothing tells"
        )
    if length:
        what = f"what was written in the last {ago(found.seconds)}{by} is probably lost"
        return f"{what}; how many records, nothing tells"
    return "nothing tells what is lost"


def _evidence(
    traces: Traces, paces: Sequence[Pace], told: set[TopicPartition], now_ms: int
) -> Iterator[str]:
    every, best = len(traces.places), best_sign(traces.signs)
    for sign in sorted(traces.signs, key=lambda sign: -sign.at_ms):
        if sign.by_record and sign is not best:
            continue
        resort = " (the last resort: any producer may set it)" if sign.by_record else ""
        yield f"replication was alive {_since(sign.at_ms, now_ms)}: {sign.evidence}{resort}"
    for ends in traces.ends:
        if ends.seen:
            when = _since(max(seen.at_ms for seen in ends.seen.values()), now_ms)
            least = "" if ends.exact else " at least"
            where = f"where {len(ends.seen):,} of {every:,} partitions ended{least}"
            yield f"{where}, {when}: {ends.evidence}"
    for copied in traces.copied:
        yield f"how far {len(copied.upto):,} of {every:,} partitions are copied: {copied.evidence}"
    for pace in paces:
        yield f"how fast was written, {pace.per_second:,.1f} records a second: {pace.evidence}"
    if len(told) < every:
        yield f"of {every - len(told):,} partitions nobody saw both the end and the copies"
    yield from (f"not known: {each}" for each in traces.silent)


def _since(at_ms: int, now_ms: int) -> str:
    return f"{ago((now_ms - at_ms) / 1000)} ago"


def ago(seconds: float | None) -> str:
    """`4.5 s`, `3 min`, `5 h`, `2 d`."""
    if seconds is None:
        return "-"
    for width, name in _UNITS:
        if seconds >= 2 * width:
            return f"{seconds / width:,.0f} {name}"
    return f"{max(0.0, seconds):.1f} s"
