"""Election plans: which partitions, their expected leaders, and blockers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from drctl.elections.cluster_state import Kind, Partition, PartitionStates
from drctl.elections.loss import Beyond, Evidence, Loss, loss_of
from drctl.model.groups import OFFSETS_TOPIC
from drctl.model.topology import TopicPartition, Unavailable


class Precheck(StrEnum):
    """Why a partition gets no election."""

    UNCLEAN = "unclean"
    SHORTER = "shorter-replica"
    HAS_LEADER = "has-leader"
    NOBODY = "no-replica"
    NOT_THERE = "not-there"
    NO_CONTROLLER = "no-controller"
    DOWN = "down"
    NOT_IN_SYNC = "not-in-sync"
    CHANGED = "changed"

    @property
    def overridable(self) -> bool:
        """Whether an engineer may override it."""
        return self in OVERRIDABLE


OVERRIDABLE = (Precheck.UNCLEAN, Precheck.SHORTER)


class Action(StrEnum):
    """The planned action for a partition."""

    ELECT = "elect"
    NOTHING = "nothing"
    REFUSE = "refuse"


class Blocker(NamedTuple):
    """A precheck that blocks an election of a partition, or was overridden."""

    precheck: Precheck
    reason: str


@dataclass(frozen=True, slots=True)
class Line:
    """One partition of a plan.

    Attributes:
        partition: the observed partition; None if it does not exist.
        to: the expected leader; None if no replica can be elected.
        refused: blockers.
        overridden: overridden blockers.
        loss: expected loss of an unclean election.
    """

    place: TopicPartition
    partition: Partition | None
    action: Action
    to: int | None = None
    refused: tuple[Blocker, ...] = ()
    overridden: tuple[Blocker, ...] = ()
    loss: Loss | None = None


@dataclass(frozen=True, slots=True)
class Aim:
    """A partition to elect a leader for, as it was when the plan was made.

    Attributes:
        leader: the leader before; None if there was none.
        epoch: its leader epoch; -1 if unknown.
        to: the expected leader.
        loss: expected loss of an unclean election, as text.
        log_end: log end offset of the expected leader; None if unknown.
        known_end: proven end of the lost log; None without evidence.
        exact: whether the lost log ended exactly there.
        clean: whether the expected leader holds all committed records.
        overridden: overridden blockers: precheck and reason.
    """

    topic: str
    partition: int
    leader: int | None
    epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    to: int
    loss: str = ""
    log_end: int | None = None
    known_end: int | None = None
    exact: bool = False
    clean: bool = True
    overridden: tuple[tuple[str, str], ...] = ()

    @property
    def place(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @classmethod
    def of(cls, line: Line) -> "Aim":
        """The aim of a planned election."""
        seen, loss = line.partition, line.loss
        assert seen is not None
        assert line.to is not None
        aim = cls(*line.place, seen.leader, seen.epoch, seen.replicas, seen.in_sync, line.to)
        if loss is None:
            return aim
        return replace(
            aim,
            loss=loss.message,
            log_end=loss.log_end if isinstance(loss.log_end, int) else None,
            known_end=loss.known_end,
            exact=loss.exact,
            clean=loss.candidate.clean,
            overridden=tuple((each.precheck.value, each.reason) for each in line.overridden),
        )

    def is_still(self, line: Line) -> bool:
        """Whether its state is unchanged and nothing blocks it."""
        if line.action is not Action.ELECT:
            return False
        now = Aim.of(line)
        basis = [(a.leader, a.epoch, a.in_sync, a.to, a.log_end) for a in (self, now)]
        return basis[0] == basis[1]

    def is_led(self, kind: Kind, states: PartitionStates) -> bool:
        """Whether the expected leader leads it and answers."""
        found = states.find(self.place)
        if found is None or not states.led(found):
            return False
        return kind is Kind.UNCLEAN or found.leader == self.to

    def took_effect(self, kind: Kind, states: PartitionStates) -> bool:
        """Whether the expected leader has been elected since."""
        found = states.find(self.place)
        led = self.is_led(kind, states) and found is not None and found.leader == self.to
        return led and self.leader != self.to


@dataclass(frozen=True, slots=True)
class ElectionPlan:
    """The elections planned on one cluster.

    Attributes:
        overrides: the reason of each override, by precheck.
        notes: sources of evidence that did not answer.
    """

    kind: Kind
    cluster: str
    cluster_id: str
    lines: tuple[Line, ...]
    overrides: Mapping[Precheck, str]
    notes: tuple[str, ...] = ()

    @property
    def elected(self) -> tuple[Line, ...]:
        """Partitions that would get an election."""
        return tuple(line for line in self.lines if line.action is Action.ELECT)

    @property
    def refused(self) -> tuple[Line, ...]:
        """Partitions whose election is blocked."""
        return tuple(line for line in self.lines if line.action is Action.REFUSE)


def preferred_plan(
    cluster: str, states: PartitionStates, places: Collection[TopicPartition] | None
) -> ElectionPlan:
    """Plan preferred elections: the first replicas become leaders.

    Args:
        places: partitions; None for all whose preferred replica is not the leader.
    """
    lines = [_preferred(each, states) for each in states.partitions if not places]
    for place in places or ():
        found = states.find(place)
        lines.append(_absent(place) if found is None else _preferred(found, states))
    kept = [line for line in lines if places or line.action is not Action.NOTHING]
    return ElectionPlan(Kind.PREFERRED, cluster, states.cluster_id, tuple(kept), {})


def unclean_plan(
    cluster: str,
    states: PartitionStates,
    places: Sequence[TopicPartition],
    evidence: Sequence[Evidence],
    groups: Mapping[TopicPartition, Sequence[Beyond]],
    overrides: Mapping[Precheck, str],
    notes: Sequence[str] = (),
) -> ElectionPlan:
    """Plan unclean elections of these partitions, with the expected loss."""
    lines = []
    for place in places:
        found = states.find(place)
        if found is None:
            lines.append(_absent(place))
            continue
        loss = None
        if found.leader is None:
            loss = loss_of(found, states, evidence, groups.get(place, ()))
        lines.append(_unclean(found, loss, states, overrides))
    every = (*_unread(states), *notes)
    return ElectionPlan(
        Kind.UNCLEAN, cluster, states.cluster_id, tuple(lines), dict(overrides), every
    )


def plan_again(
    kind: Kind,
    states: PartitionStates,
    places: Sequence[TopicPartition],
    overrides: Mapping[Precheck, str],
) -> ElectionPlan:
    """The plan for these partitions as of now, without the expected loss."""
    if kind is Kind.PREFERRED:
        return preferred_plan("", states, places)
    return unclean_plan("", states, places, (), {}, overrides)


def _unread(states: PartitionStates) -> Iterable[str]:
    """A note if groups have no coordinator, so that their offsets are unknown."""
    kept = [each for each in states.partitions if each.place.topic == OFFSETS_TOPIC]
    leaderless = sum(not states.led(each) for each in kept)
    if leaderless:
        yield (
            f"partitions of {OFFSETS_TOPIC} without a leader: {leaderless} of {len(kept)};"
            " offsets of their groups are unknown: elect leaders for these partitions first"
        )


def _absent(place: TopicPartition) -> Line:
    reason = "the partition does not exist, or this user may not see it"
    return Line(place, None, Action.REFUSE, refused=(Blocker(Precheck.NOT_THERE, reason),))


def _preferred(seen: Partition, states: PartitionStates) -> Line:
    node = seen.preferred
    if seen.leader == node:
        return Line(seen.place, seen, Action.NOTHING, node)
    if node not in states.alive:
        against = Blocker(Precheck.DOWN, f"broker {node}, its first replica, does not answer")
    elif not seen.holds_everything(node):
        against = Blocker(Precheck.NOT_IN_SYNC, f"broker {node}, its first replica, is out of sync")
    else:
        return Line(seen.place, seen, Action.ELECT, node)
    return Line(seen.place, seen, Action.REFUSE, node, refused=(against,))


def _unclean(
    seen: Partition, loss: Loss | None, states: PartitionStates, overrides: Mapping[Precheck, str]
) -> Line:
    found = tuple(_against(seen, loss, states))
    refused = tuple(each for each in found if each.precheck not in overrides)
    passed = tuple(each for each in found if each.precheck in overrides)
    action = Action.REFUSE if refused else Action.ELECT
    to = loss.candidate.node if loss else None
    return Line(seen.place, seen, action, to, refused, passed, loss)


def _against(seen: Partition, loss: Loss | None, states: PartitionStates) -> Iterable[Blocker]:
    if seen.leader is not None:
        yield Blocker(Precheck.HAS_LEADER, _led(seen, states))
        return
    if isinstance(states.controller, Unavailable):
        reason = f"no leader can be elected without a controller: {states.controller.reason}"
        yield Blocker(Precheck.NO_CONTROLLER, reason)
    if loss is None:
        nodes = ", ".join(map(str, seen.replicas))
        yield Blocker(Precheck.NOBODY, f"none of its replicas answers (brokers {nodes})")
        return
    yield Blocker(Precheck.UNCLEAN, f"data loss: {loss.message}")
    if loss.longer and not loss.candidate.clean:
        node, end = loss.longer[0]
        yield Blocker(
            Precheck.SHORTER,
            f"the controller elects the first live replica, broker {loss.candidate.node} (log end"
            f" {loss.log_end}); broker {node} has more records (log end {end}): move it to"
            " the front of the replicas with kafka-reassign-partitions.sh, or stop broker"
            f" {loss.candidate.node}",
        )


def _led(seen: Partition, states: PartitionStates) -> str:
    if states.led(seen):
        return f"broker {seen.leader} leads it"
    return (
        f"its leader, broker {seen.leader}, does not answer here: the controller elects no other"
        " leader until it, too, loses contact with that broker"
    )
