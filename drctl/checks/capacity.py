"""Capacity of the target: disks and partitions, compared with the load of the source."""

from collections.abc import Iterator, Mapping
from functools import partial

from drctl.checks.brokers import Side, describe_topics, sides
from drctl.checks.check import Family, check, reasons, several, split
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, separately, warn
from drctl.config.link import Link
from drctl.model.finding import Status
from drctl.model.survey import Disks
from drctl.model.text import kafka_tool
from drctl.model.topology import TopicPartition

_FAMILY = Family.TARGET
_LITTLE = 0.1
"""Share of a broker's disks that should stay free."""

_MORE, _FEW = 1.5, 10
"""With fewer partitions per broker than this, the load of partitions is not judged."""

_GIB = 1 << 30


@check("disk-capacity", _FAMILY, Status.WARN, Status.FAIL)
def disks(observed: Observed) -> Iterator[Verdict]:
    """The target's disks can hold all records of the link, and have a tenth free afterwards."""
    yield from separately([partial(_disks, observed)])


def _disks(observed: Observed) -> Verdict:
    here, there = sides(observed)
    subject = f"disks of cluster {there.name}"
    ours, theirs = _log_dirs(here, subject), _log_dirs(there, subject)
    needed = _needed(observed.link, here, there, ours, theirs)
    usable, total = (sum(values) for values in zip(*_capacities(theirs), strict=True))
    left = usable - needed
    evidence = (
        f"{_bytes(needed)} of the link are not on {there.name} yet;"
        f" {_bytes(usable)} of {_bytes(total)} are free"
    )
    impact = "brokers stop when their disks are full"
    remedy = "add disks or brokers, or shorten the retention of large topics"
    if left < 0:
        return fail(subject, "they cannot hold all records of the link", evidence, impact, remedy)
    full = [node for node, each in theirs.items() if each.usable < _LITTLE * each.total]
    if full:
        free = several(
            f"broker {node}: {_bytes(theirs[node].usable)} of {_bytes(theirs[node].total)} free"
            for node in sorted(full)
        )
        return warn(subject, "less than a tenth is free on some brokers", free, impact, remedy)
    if left < _LITTLE * total:
        reason = "less than a tenth would be free with all records of the link"
        return warn(subject, reason, evidence, impact, remedy)
    return ok(subject, "they can hold all records of the link", evidence)


def _log_dirs(side: Side, subject: str) -> Mapping[int, Disks]:
    """The disks of every broker.

    Raises:
        NotObserved: the disks of a broker are not known: the sum would be too low.
    """
    remedy = f"compare their disks: {kafka_tool('kafka-log-dirs.sh', side.name)} --describe"
    asked = require(side.survey.log_dirs, subject, f"those of {side.name} are", remedy)
    known, unknown = split(asked)
    if unknown or not known:
        reason = f"brokers of {side.name} do not report them"
        raise NotObserved(subject, reason, remedy, reasons(unknown))
    return known


def _needed(
    link: Link, here: Side, there: Side, ours: Mapping[int, Disks], theirs: Mapping[int, Disks]
) -> int:
    """Bytes that replication still has to write to the target."""
    copies = there.layout().partitions
    needed = 0
    for place, replicas in here.layout().partitions.items():
        if not link.carries(place.topic):
            continue
        copy = TopicPartition(link.target_topic(place.topic), place.partition)
        count = len(copies[copy].assigned) if copy in copies else len(replicas.assigned)
        size = max((each.sizes.get(place, 0) for each in ours.values()), default=0)
        present = sum(each.sizes.get(copy, 0) for each in theirs.values())
        needed += max(0, size * count - present)
    return needed


def _capacities(known: Mapping[int, Disks]) -> list[tuple[int, int]]:
    return [(each.usable, each.total) for each in known.values()]


def _bytes(number: int) -> str:
    return f"{number / _GIB:,.1f} GiB"


@check("partition-capacity", _FAMILY, Status.WARN)
def partitions(observed: Observed) -> Verdict:
    """A broker of the target holds at most 1.5 times as many replicas as one of the source."""
    here, there = sides(observed)
    subject = f"brokers of cluster {there.name}"
    held: list[float] = []
    for side in (here, there):
        layout = side.layout()
        if not layout.brokers:
            raise NotObserved(subject, f"{side.name} lists no brokers", describe_topics(side.name))
        replicas = sum(len(each.assigned) for each in layout.partitions.values())
        held.append(replicas / len(layout.brokers))
    evidence = f"replicas per broker: {held[0]:,.0f} on {here.name}, {held[1]:,.0f} on {there.name}"
    if held[1] <= _MORE * held[0] or held[1] < _FEW:
        return ok(subject, "they hold about as many replicas as those of the source", evidence)
    reason = (
        f"each holds {held[1] / max(held[0], 1):,.1f} times as many replicas as a broker of"
        " the source"
    )
    impact = "after a failover, elections and restarts take longer than on the source"
    return warn(subject, reason, evidence, impact, "add brokers, and spread the replicas over them")
