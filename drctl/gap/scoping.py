"""How much of the two sides a run reads: all of it, or the tail."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from drctl.gap.comparison import ComparePlan, span_of
from drctl.gap.freeze import Frozen
from drctl.gap.ledger_updates import Known, Remembering, nothing_known
from drctl.gap.tail import Tail, too_narrow, windowed
from drctl.model.errors import Unknown
from drctl.model.gap import NotCompared, TopicGap, Window
from drctl.model.topology import TopicPartition


class Scope(StrEnum):
    """What a run was told to read."""

    AUTO = "auto"
    FULL = "full"
    TAIL = "tail"


@dataclass(frozen=True, slots=True)
class Work:
    """One freeze, and what is to be read and compared of it.

    Attributes:
        windows: by source partition; empty where all is compared.
        left_out: what the answer does not cover.
    """

    frozen: Frozen
    plan: ComparePlan
    known: Known
    remembering: Remembering | None = None
    scope: Scope = Scope.FULL
    windows: Mapping[TopicPartition, Window] = field(default_factory=dict)
    left_out: tuple[NotCompared, ...] = ()

    @property
    def offsets(self) -> int:
        """How many there are to read, of both sides; at least as many as records."""
        return span_of(self.known.reads)

    @property
    def partitions(self) -> int:
        """In how many partitions of the source something is compared."""
        return sum(len(topic.source) for topic in self.plan.topics)


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may cost.

    Attributes:
        seconds: how long an engineer can wait.
        offsets_a_second: of both sides together.
        measured: whether that rate was measured here, or is only assumed.
    """

    seconds: float
    offsets_a_second: float
    measured: bool

    def seconds_for(self, offsets: int) -> float:
        """How long reading them is expected to take."""
        return offsets / self.offsets_a_second

    def allows(self, offsets: int) -> bool:
        """Whether that is within the budget."""
        return self.seconds_for(offsets) <= self.seconds


FindTail = Callable[[Iterable[str]], Tail | None]
"""What is known of how far the replicator got with these topics; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Scoping:
    """Chooses what is read."""

    scope: Scope
    find_tail: FindTail
    budget: Budget

    def chosen(self, work: Work) -> tuple[Work, Tail | None]:
        """The work that is to be done, and the tail that it keeps to.

        Raises:
            Unknown: the tail was asked for, and nobody knows where it begins.
            Unreachable: a cluster, or a worker of the replicator, did not answer.
        """
        wanted = self.scope is Scope.TAIL
        enough = self.scope is Scope.AUTO and self.budget.allows(work.offsets)
        if self.scope is Scope.FULL or enough:
            return work, None
        tail = self.find_tail(t.topic for t in work.plan.topics)
        if tail is None and wanted:
            raise Unknown(
                "nobody says how far replication got: the tail has no beginning",
                "set `replicator` of the link (kind, connect, connectors), or use --scope full",
            )
        return (work, None) if tail is None else (self.narrowed(work, tail, {}), tail)

    def narrowed(self, work: Work, tail: Tail, margins: Mapping[TopicPartition, int]) -> Work:
        """The work cut down to the tail.

        Raises:
            Unreachable: a cluster did not answer.
        """
        windows, unknown = tail.windows(work.plan, margins)
        plan = windowed(work.plan, windows)
        before = self._unread(windows) if self.scope is Scope.AUTO else ()
        return Work(
            frozen=work.frozen,
            plan=plan,
            known=nothing_known(plan),
            scope=Scope.TAIL,
            windows=windows,
            left_out=(*unknown, *before),
        )

    def wider(
        self,
        whole: Work,
        done: Work,
        tail: Tail,
        topics: Iterable[TopicGap],
        margins: dict[TopicPartition, int],
    ) -> Work | None:
        """The work to do instead, where something is missing that was said to be replicated.

        Args:
            whole: the work before it was cut down.
            margins: grows.
        """
        grown = too_narrow(topics, done.windows)
        if not grown:
            return None
        margins |= grown
        return self.narrowed(whole, tail, margins)

    def _unread(self, windows: Mapping[TopicPartition, Window]) -> tuple[NotCompared, ...]:
        """Nobody asked for less than everything, so what was not read is said to be missing."""
        return tuple(
            NotCompared(
                w.topic,
                w.partition,
                f"only offsets from {w.source_start} on were read, to be in time: {w.evidence}."
                " --scope full, or a --ledger that is kept, covers the rest",
            )
            for w in windows.values()
            if not w.whole
        )
