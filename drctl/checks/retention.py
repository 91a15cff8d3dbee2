"""The source's retention: whether it deletes what was not replicated yet."""

from collections.abc import Callable, Iterator, Mapping

from drctl.checks.check import PLANNED, Family, Guards, Verdict, check, fail, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.wording import several
from drctl.model.finding import Status
from drctl.model.replication import Tail
from drctl.model.topology import TopicPartition

Tails = Mapping[TopicPartition, Tail]


@check(
    "retention-near-tail",
    Family.RETENTION,
    "the source keeps what was not replicated yet for longer than a quarter of its `retention.ms`",
    Status.WARN,
    Status.FAIL,
    guards=Guards(PLANNED),
)
def near_tail(observed: Observed) -> Iterator[Verdict]:
    """Whether records are deleted before they are copied."""
    subject = f"unreplicated tails on cluster {observed.link.source}"
    cure = "compare retention.ms of the source's topics with how long replication has stood"
    by_place = seen(observed.tails, subject, "how old they are is", cure)
    tails = {p: each for p, each in by_place.items() if isinstance(each, Tail)}
    keep = "raise retention.ms of these topics on the source until replication has caught up"
    if lost := _those(tails, lambda tail: tail.lost):
        cost = "they are in no cluster any more"
        reason = f"{_sum(lost):,} records were deleted before they were copied"
        yield fail(subject, reason, _told(lost), cost, keep)
    if soon := _those(tails, lambda tail: tail.soon):
        cost = "the source deletes them while replication is drained"
        reason = f"{_sum(soon):,} records are about to be deleted before they are copied"
        yield fail(subject, reason, _told(soon), cost, keep)
    elif later := _those(tails, lambda tail: tail.later):
        cost = "the source deletes them if replication does not catch up in time"
        reason = f"{_sum(later):,} records have less than a quarter of their retention left"
        yield warn(subject, reason, _told(later), cost, keep)
    unknown = [f"{p}: {each.reason}" for p, each in by_place.items() if not isinstance(each, Tail)]
    unknown += [f"{p}: {tail.by_size}" for p, tail in tails.items() if tail.by_size]
    if unknown:
        reason = f"when {len(unknown):,} of them are deleted is not known"
        yield Verdict(Status.NOT_CHECKED, subject, reason, several(unknown), cure=cure)
    elif not (lost or soon or any(tail.later for tail in tails.values())):
        yield ok(subject, "none is near its deletion", f"{len(tails):,} partitions lag")


def _those(tails: Tails, count: Callable[[Tail], int]) -> dict[TopicPartition, int]:
    return {p: count(tail) for p, tail in tails.items() if count(tail)}


def _sum(counts: Mapping[TopicPartition, int]) -> int:
    return sum(counts.values())


def _told(counts: Mapping[TopicPartition, int]) -> str:
    return several(f"{place}: {count:,}" for place, count in counts.items())
