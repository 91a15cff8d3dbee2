"""Partitions and cluster states for tests of elections."""

from collections.abc import Mapping

from drctl.elections.cluster_state import Partition, PartitionStates, Replica
from drctl.model.health import Controller
from drctl.model.topology import TopicPartition, Unavailable

PLACE = TopicPartition("orders", 0)
CONTROLLER = Controller(1, 1)


def partition(
    replicas: tuple[int, ...],
    in_sync: tuple[int, ...],
    leader: int | None = None,
    eligible: tuple[int, ...] | None = (),
    place: TopicPartition = PLACE,
    epoch: int = 7,
) -> Partition:
    return Partition(place, leader, epoch, replicas, in_sync, eligible, ())


def reader(
    *partitions: Partition,
    alive: tuple[int, ...] = (1, 2, 3),
    ends: Mapping[int, int | Unavailable] | None = None,
    controller: Controller | Unavailable = CONTROLLER,
) -> PartitionStates:
    """Return a reader in which every broker's log ends at `ends` in all partitions."""
    return PartitionStates(
        "a-cluster",
        controller,
        frozenset(alive),
        {},
        partitions,
        {Replica(p.place, n): end for p in partitions for n, end in (ends or {}).items()},
        {},
    )
