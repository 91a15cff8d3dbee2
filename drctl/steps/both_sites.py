"""Steps of a failback whose clusters both accept writes all the time.

Neither cluster is a copy of the other: each has records of its own that the other is missing. So
both directions are compared, reconciled and replicated, each from where its comparison ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.engine.kind import (
    BothClusters,
    Description,
    F,
    Facts,
    I,
    Polling,
    Readback,
    S,
    State,
    Trait,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.steps.enable_writes import EnableFacts, EnableIntent, EnableSettings, EnableWrites
from drctl.steps.manual import MANUAL_STOP_REPLICATION
from drctl.steps.records import FIND_REVERSE, FindMissing, Reconcile
from drctl.steps.reversed import Irreversible, OppositeDirection, WhileStopped, Wrapped
from drctl.steps.set_start_offsets import (
    SET_START_OFFSETS_AFTER_SEARCH,
    SET_START_OFFSETS_REVERSE,
    SetStartOffsets,
)
from drctl.steps.stop_replication import KEEP_REVERSE_STOPPED, StopReplication


@dataclass(frozen=True, slots=True)
class OfSurvivingCluster(Wrapped[S, I, F]):
    """Applies a kind of step to the records that only the surviving cluster has.

    `FindMissing` and `Reconcile` work in the direction opposite to the plan's. With this wrapper
    they work in the plan's direction.
    """

    name: str

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read."""
        return self.kind.traits & ~Trait.OPPOSITE_DIRECTION

    def check(self, settings: S, facts: Facts, reader: LinkReader) -> I:
        """Delegate to the kind, with the search for these records."""
        search = facts.get(FIND_REVERSE)
        mine = Facts(facts if search is None else {**facts, FindMissing.name: search})
        return self.kind.check(settings, mine, reader.reversed())

    def apply(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Delegate to the kind, in the other direction."""
        return self.kind.apply(intent, writer.reversed())

    def verify(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Delegate to the kind, in the other direction."""
        return self.kind.verify(intent, reader.reversed())

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[F]:
        """Delegate to the kind, in the other direction."""
        return self.kind.verify_undo(intent, reader.reversed())


@dataclass(frozen=True, slots=True)
class EnableRecovered(Wrapped[EnableSettings, EnableIntent, EnableFacts]):
    """Enables writes on the recovered cluster, while the surviving one keeps accepting them."""

    name: str

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read: the fence is that of the opposite direction."""
        return self.kind.traits | Trait.OPPOSITE_DIRECTION


@dataclass(frozen=True, slots=True)
class GroupsIntent:
    """The groups that return to a cluster, and the name of that cluster."""

    cluster: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupsFacts:
    """Where groups resume.

    Attributes:
        kept: how many groups have committed offsets on the recovered cluster.
        without: groups that have none.
    """

    kept: int
    without: tuple[str, ...]


class KeepGroupOffsets(Polling[BothClusters, GroupsIntent, GroupsFacts]):
    """Leaves the offsets of returning groups as they were when the cluster was lost."""

    name = "keep-group-offsets"
    traits = Trait.NONE

    def describe(self, settings: BothClusters) -> Description:
        """Describe the step for plans and reports."""
        source, target = settings.source, settings.target
        return Description(
            f"leave the groups' offsets on {target} as they are: each group resumes where it was"
            f" when {target} was lost, and reads again what it has read on {source}",
            "groups without a committed offset are listed",
        )

    def check(self, settings: BothClusters, facts: Facts, reader: LinkReader) -> GroupsIntent:
        """List the link's groups on both clusters.

        Raises:
            Unreachable: a cluster did not respond.
        """
        ends = (settings.source, settings.target)
        names = {name for cluster in ends for name in reader.link_groups(cluster)}
        return GroupsIntent(settings.target, tuple(sorted(names)))

    def verify(self, intent: GroupsIntent, reader: LinkReader) -> Readback[GroupsFacts]:
        """List groups that have no committed offset to resume at."""
        cluster, names = intent.cluster, intent.groups
        committed: Mapping[str, object] = reader.groups(cluster).committed(names) if names else {}
        unread = tuple(name for name in names if isinstance(committed.get(name), Unavailable))
        if unread:
            message = f"offsets of {plural(len(unread), 'group')} on {cluster} cannot be read"
            return Readback(State.WAITING, message, items=unread)
        without = tuple(name for name in names if not committed.get(name))
        kept = len(names) - len(without)
        message = f"groups that resume at their offsets on {cluster}: {kept} of {len(names)}"
        outstanding = ""
        if without:
            outstanding = (
                f"groups without a committed offset on {cluster}: {', '.join(without)};"
                " auto.offset.reset decides whether they read everything again or skip records;"
                " commit offsets for them"
            )
        return Readback(
            State.DONE, message, GroupsFacts(kept, without), without, outstanding=outstanding
        )


_STOPPED = "replication does not run in either direction until its start offsets are set"
_SEEDED = "start offsets stay valid while replication is stopped; the next run sets them again"

ENABLE_RECOVERED = EnableRecovered(EnableWrites(), "enable-writes-recovered")
FIND_MISSING_REVERSE = OfSurvivingCluster(FindMissing(), FIND_REVERSE)
RECONCILE_REVERSE = OfSurvivingCluster(Reconcile(), "reconcile-reverse")

BOTH_SITES = (
    Irreversible(StopReplication(), KEEP_REVERSE_STOPPED, _STOPPED, verifies=True),
    Irreversible(MANUAL_STOP_REPLICATION, f"manual-{KEEP_REVERSE_STOPPED}", _STOPPED),
    WhileStopped(FIND_MISSING_REVERSE, KEEP_REVERSE_STOPPED),
    WhileStopped(RECONCILE_REVERSE, KEEP_REVERSE_STOPPED),
    Irreversible(
        SetStartOffsets(SET_START_OFFSETS_REVERSE, from_search=True, search=FIND_REVERSE),
        SET_START_OFFSETS_REVERSE,
        _SEEDED,
    ),
    OppositeDirection(
        Irreversible(
            SetStartOffsets(SET_START_OFFSETS_AFTER_SEARCH, from_search=True),
            SET_START_OFFSETS_AFTER_SEARCH,
            _SEEDED,
        ),
        SET_START_OFFSETS_AFTER_SEARCH,
    ),
    KeepGroupOffsets(),
    ENABLE_RECOVERED,
)
"""Kinds used only by failbacks between two sites that both accept writes."""
