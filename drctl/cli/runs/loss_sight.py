"""Gathers what is left of a source that is gone: from the survivor, Connect and this machine."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drctl.gap.loss import estimate
from drctl.gap.traces import Arrivals, Copied, Ends, Sign, Traces
from drctl.model.errors import DrctlError
from drctl.model.loss import Loss
from drctl.model.topology import PartitionOffsets, TopicPartition

if TYPE_CHECKING:
    from drctl.cli.notices import Task
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.ports import ClusterReader

ESTIMATING = "estimating what is lost"


@dataclass(slots=True)
class LossSight:
    """One look at everything that may tell; who does not answer is named.

    Args:
        target: what looks at the cluster that survives.
        topics: of the source.
        task: is told what is asked; None where nobody wants to know.
        told: what kept replication from running when it was told to stop, empty for nothing; None
            where Connect is to say whether it runs.
    """

    config: "Config"
    link: "Link"
    target: "ClusterReader"
    topics: Sequence[str]
    now: Callable[[], float] = time.time
    task: "Task | None" = None
    told: str | None = None
    ends: list[Ends] = field(default_factory=list, init=False)
    copied: list[Copied] = field(default_factory=list, init=False)
    signs: list[Sign] = field(default_factory=list, init=False)
    arrivals: dict[TopicPartition, Arrivals] = field(default_factory=dict, init=False)
    empty: set[TopicPartition] = field(default_factory=set, init=False)
    halted: str = field(default="", init=False)
    failed: bool = field(default=False, init=False)
    silent: list[str] = field(default_factory=list, init=False)

    def loss(self) -> Loss:
        """What the target probably lacks.

        Raises:
            Unreachable: the target did not answer.
        """
        return estimate(self.traces(), round(self.now() * 1000))

    def traces(self) -> Traces:
        """All of it.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.cli.runs.loss_arrivals import Copies
        from drctl.cli.runs.loss_known import KnownEnds
        from drctl.cli.runs.loss_mirror import MirrorTraces

        places = self._places()
        KnownEnds(self).gather()
        mirror = MirrorTraces(self, places)
        mirror.gather()
        copies = Copies(self, mirror.logs(), mirror.syncs)
        self.ask("when the copies were written", lambda: copies.gather(round(self.now() * 1000)))
        # Last: where it was told to stop, Connect answers once its tasks have ended.
        mirror.ask_connect()
        return Traces(
            self.link.source,
            places,
            self.ends,
            self.copied,
            self.signs,
            self.arrivals,
            frozenset(self.empty),
            self.halted,
            self.failed,
            self.silent,
        )

    def copy_of(self, place: TopicPartition) -> TopicPartition:
        """A partition of the source as it is called on the target."""
        return TopicPartition(self.link.target_topic(place.topic), place.partition)

    def ends_of(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        """The logs on the target, by partition of the source; without those that do not tell.

        Raises:
            Unreachable: the target did not answer.
        """
        copies = {self.copy_of(place): place for place in places}
        found = self.target.offsets(tuple(copies))
        return {
            copies[copy]: log for copy, log in found.items() if isinstance(log, PartitionOffsets)
        }

    def ask(self, what: str, look: Callable[[], None]) -> None:
        """Look; who does not answer is named, and the others tell all the same."""
        if self.task is not None:
            self.task.update(description=f"{ESTIMATING}: {what}")
        try:
            look()
        except DrctlError as error:
            self.silent.append(f"{what}: {error.message}")

    def _places(self) -> tuple[TopicPartition, ...]:
        partitions = self.target.overview().partitions
        return tuple(
            TopicPartition(topic, number)
            for topic in self.topics
            for number in partitions.get(self.link.target_topic(topic), ())
        )
