"""Whether two clusters that a comparison found alike have parted since.

Where clients are home, what they write comes to the target in its order: behind the comparison the
target holds the beginning of what the source does. Where they are not, each holds its own.
"""

from collections.abc import Iterable

from drctl.failback.facts import Cluster
from drctl.failback.gap_results import GapEvidence
from drctl.failback.observers.boundaries import observe_boundaries
from drctl.failback.observers.copies import MOST, content, original, span
from drctl.model.ports import ClusterReader
from drctl.model.topology import Record, Unavailable


def apart_since(
    result: GapEvidence,
    on_source: Cluster,
    on_target: Cluster,
    source: ClusterReader,
    target: ClusterReader,
) -> str | Unavailable:
    """Where the target holds something that the source does not; empty where nowhere.

    Args:
        result: a comparison that found nothing missing on the target.

    Raises:
        Unreachable: a cluster did not answer.
    """
    new = [str(each) for each in sorted(on_source.logs.keys() - result.ends.keys())]
    if new:
        return Unavailable(f"{new[0]} is not in it")
    origin = on_source.identity
    boundaries = observe_boundaries(result, on_source, source, target, MOST)
    if isinstance(boundaries, Unavailable):
        return boundaries
    total = span(boundaries, on_target) + span(result.ends, on_source)
    if total > MOST:
        return Unavailable(f"{total:,} offsets are too many to look through: run drctl gap again")
    # The source last: what comes to the target meanwhile has come to the source before.
    there = target.following(boundaries, MOST)
    here = source.following(dict(result.ends), MOST)
    for each in result.partitions:
        own, copies = here.get(each.place, ()), there.get(each.copy, ())
        for place, records in ((each.place, own), (each.copy, copies)):
            if isinstance(records, Unavailable):
                return Unavailable(f"{place}: {records.reason}")
        assert not isinstance(own, Unavailable)
        assert not isinstance(copies, Unavailable)
        first = _first_other(own, [c for c in copies if original(c, origin, each.place) is None])
        if first is not None:
            return (
                f"offset {first} of {each.copy} on {target.name} is not what follows on"
                f" {source.name} behind {result.told}"
            )
    return ""


def _first_other(own: Iterable[Record], copies: Iterable[Record]) -> int | None:
    """The offset of the first copy that is not the next of the source's own records."""
    following = iter(own)
    for copy in copies:
        if content(copy) != content(next(following, None)):
            return copy.offset
    return None
