"""Gathers what is left of a source that is gone: from the survivor, Connect and this machine."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drctl.engine.ports import Loss
from drctl.gap.loss import estimate
from drctl.gap.traces import Copied, Ends, Pace, Sign, Traces
from drctl.model.errors import DrctlError
from drctl.model.topology import Found, TopicPartition, Unavailable

if TYPE_CHECKING:
    from drctl.cli.progress import Task
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.ports import ClusterReader

_PACE_MS = 600_000
ESTIMATING = "estimating what is lost"


@dataclass(slots=True)
class LossSight:
    """One look at everything that may tell; who does not answer is named.

    Args:
        target: what looks at the cluster that survives.
        topics: of the source.
        task: is told what is asked; None where nobody wants to know.
    """

    config: "Config"
    link: "Link"
    target: "ClusterReader"
    topics: Sequence[str]
    now: Callable[[], float] = time.time
    task: "Task | None" = None
    ends: list[Ends] = field(default_factory=list, init=False)
    copied: list[Copied] = field(default_factory=list, init=False)
    signs: list[Sign] = field(default_factory=list, init=False)
    paces: list[Pace] = field(default_factory=list, init=False)
    silent: list[str] = field(default_factory=list, init=False)

    def loss(self) -> Loss:
        """What the target probably lacks.

        Raises:
            Unreachable: the target did not answer.
        """
        found = estimate(self.traces(), round(self.now() * 1000))
        return Loss(found.records, found.seconds, found.words, found.at_least, found.evidence)

    def traces(self) -> Traces:
        """All of it.

        Raises:
            Unreachable: the target did not answer.
        """
        from drctl.cli.runs.loss_known import KnownEnds
        from drctl.cli.runs.loss_mirror import MirrorTraces

        places = self._places()
        KnownEnds(self).gather()
        MirrorTraces(self, places).gather()
        # Only for want of better: any producer may set a record's timestamp.
        self._by_own_timestamps(places)
        return Traces(
            self.link.source, places, self.ends, self.copied, self.signs, self.paces, self.silent
        )

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

    def _by_own_timestamps(self, places: Sequence[TopicPartition]) -> None:
        copies = [TopicPartition(self.link.target_topic(p.topic), p.partition) for p in places]
        times = self.target.max_timestamps(copies).values()
        newest = max((t for t in times if not isinstance(t, Unavailable)), default=-1)
        if newest < 0:
            return
        self.signs.append(Sign("the newest copy's own timestamp", newest, by_record=True))
        if not self.paces:
            self._pace_of_copies(copies, newest)

    def _pace_of_copies(self, copies: Sequence[TopicPartition], newest: int) -> None:
        """How many copies have a timestamp of the minutes before replication ended."""
        until = max((sign.at_ms for sign in self.signs if not sign.by_record), default=newest)
        begin = until - _PACE_MS
        found = self.target.look_up([(place, max(0, begin)) for place in copies])()
        ends = self.target.offsets(copies)
        written = 0
        for place, first in zip(copies, found, strict=True):
            log = ends[place]
            if isinstance(first, Found) and first.offset >= 0 and not isinstance(log, Unavailable):
                written += log.end - first.offset
        if written:
            minutes = _PACE_MS // 60_000
            evidence = f"copies of the last {minutes} min, by their own timestamps"
            pace = Pace(evidence, written * 1000 / _PACE_MS, until, by_record=True)
            self.paces.append(pace)
