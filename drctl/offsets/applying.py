"""Plans which offsets to commit, from the wanted offsets and the current state of the cluster.

Wanted offsets come from a translation, a snapshot, or a run to roll back. Only `look` reads from
the cluster, and nothing writes to it. The same input gives the same plan.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from drctl.model.groups import Committed, Group, GroupProtocol, Positions
from drctl.model.ports import GroupReader, OffsetReader
from drctl.model.text import plural
from drctl.model.topology import Mark, OffsetRange, TopicPartition, Unavailable
from drctl.model.translation import Translation
from drctl.offsets.translating import COMMITTED_AHEAD, NEVER


class Bounds(NamedTuple):
    """Bounds on how far off an offset may be; None if unknown.

    Attributes:
        rereads_likely: with an unreachable source, records that are re-read if the group consumed
            nothing after the evidence.
        skips_only_if: condition under which more is skipped; empty if the source is reachable. If
            there is one, `rereads_at_most` is bounded only by the end of the log.
    """

    rereads_at_most: int | None
    skips_at_most: int | None
    rereads_likely: int | None = None
    skips_only_if: str = ""


class BasedOn(NamedTuple):
    """The evidence for an offset.

    Attributes:
        method: empty if it does not come from a translation.
        age_seconds: None if unknown.
    """

    method: str = ""
    evidence: str = ""
    age_seconds: float | None = None


NOTHING = BasedOn()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted committed offset of a group in a partition.

    Attributes:
        partition: on the cluster that is written; if it does not exist there, the source
            partition, with `blocked` set.
        to: None to delete the committed offset.
        bounds: from the translation; None if only the committed offset can be compared.
        blocked: why it must not be applied; empty if it may be.
        based_on: the evidence for it.
        undoes: the offset written by the run that is rolled back. The group must still have it, or
            already have the offset to roll back to.
    """

    group: str
    partition: TopicPartition
    to: Committed | None
    bounds: Bounds | None = None
    blocked: str = ""
    undoes: "Written | None" = None
    based_on: BasedOn = NOTHING


class Translated(NamedTuple):
    """The wanted offsets for the groups of a link.

    Attributes:
        unknown: group patterns of the link without a match: the source is unreachable, and there
            is no evidence of a group.
    """

    wanted: tuple[Wanted, ...]
    unknown: tuple[str, ...] = ()


class Written(NamedTuple):
    """The offset that a run wrote; None if it deleted it."""

    position: Committed | None


@dataclass(frozen=True, slots=True)
class TargetState:
    """Current state of the groups and partitions on the cluster.

    Attributes:
        logs: log start and end of each partition.
        epoch_ends: by partition and committed leader epoch, the end offset of the records up to
            that epoch; 0 if the log has none, or if the epoch is higher than the leader's.
    """

    groups: Mapping[str, Group | Unavailable]
    committed: Mapping[str, Positions | Unavailable]
    logs: Mapping[TopicPartition, OffsetRange | Unavailable]
    epoch_ends: Mapping[tuple[TopicPartition, int], int | Unavailable] = field(default_factory=dict)


EndsBefore = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, int | Unavailable]]
"""Returns the end offset of the records up to a leader epoch, by partition."""


def look(
    groups: GroupReader, offsets: OffsetReader, ends_before: EndsBefore, wanted: Iterable[Wanted]
) -> TargetState:
    """Read the state from the cluster; rows that are blocked without an offset are skipped.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    asked = [row for row in wanted if row.to is not None or not row.blocked]
    names = tuple(dict.fromkeys(row.group for row in asked))
    logs = log_ranges(offsets, {row.partition for row in asked})
    described, committed = groups.described(names), groups.committed(names)
    return TargetState(described, committed, logs, _epoch_ends(asked, committed, ends_before))


def _epoch_ends(
    asked: Iterable[Wanted],
    committed: Mapping[str, Positions | Unavailable],
    ends_before: EndsBefore,
) -> dict[tuple[TopicPartition, int], int | Unavailable]:
    """The end offset of each committed leader epoch, for offsets that come from a translation."""
    epochs: dict[TopicPartition, set[int]] = defaultdict(set)
    for row in asked:
        held = committed.get(row.group)
        at = held.get(row.partition) if isinstance(held, Mapping) else None
        if at is not None and at.leader_epoch >= 0 and row.bounds is not None:
            epochs[row.partition].add(at.leader_epoch)
    found: dict[tuple[TopicPartition, int], int | Unavailable] = {}
    while epochs:  # A request holds a partition once.
        once = {place: some.pop() for place, some in epochs.items()}
        ends = ends_before(once)
        found |= {(place, epoch): ends[place] for place, epoch in once.items()}
        epochs = {place: some for place, some in epochs.items() if some}
    return found


def log_ranges(
    offsets: OffsetReader, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetRange | Unavailable]:
    """Return log start and end of each partition.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    places = sorted(partitions)
    if not places:
        return {}
    # Two requests in flight: a partition may appear only once in a request.
    starts = offsets.look_up([(place, int(Mark.START)) for place in places])
    ends = offsets.look_up([(place, int(Mark.END)) for place in places])
    found: dict[TopicPartition, OffsetRange | Unavailable] = {}
    for place, start, end in zip(places, starts(), ends(), strict=True):
        if isinstance(start, Unavailable):
            found[place] = start
        elif isinstance(end, Unavailable):
            found[place] = end
        else:
            found[place] = OffsetRange(start.offset, end.offset)
    return found


def from_translations(rows: Iterable[Translation]) -> tuple[Wanted, ...]:
    """Convert a translation to wanted offsets; rows without an answer become blocked ones.

    Partitions in which a group has never committed are skipped.
    """
    return tuple(_from_translation(row) for row in rows if row.blocked != NEVER)


def unmatched(patterns: Iterable[str], wanted: Iterable[Wanted]) -> tuple[str, ...]:
    """Return the patterns that match none of the groups."""
    known = {row.group for row in wanted}
    return tuple(p for p in patterns if not any(re.fullmatch(p, name) for name in known))


def _from_translation(row: Translation) -> Wanted:
    group, source = row.place
    if row.answer is None or row.target is None:
        reason = row.blocked or "no method has evidence"
        return Wanted(group, row.target or source, None, blocked=reason)
    found = row.answer
    bounds = Bounds(
        found.rereads_at_most, found.skips_at_most, found.rereads_likely, found.skips_only_if
    )
    based_on = BasedOn(found.method.value, found.evidence, found.age_seconds)
    to = Committed(found.target_offset)
    return Wanted(group, row.target, to, bounds, row.blocked, based_on=based_on)


class Precheck(StrEnum):
    """Prechecks of an offset; the names are those of `--override`."""

    NOT_READABLE = "not-readable-target"
    GROUP_TYPE = "group-type"
    GROUP_ACTIVE = "group-active"
    BLOCKED = "blocked"
    CHANGED_SINCE = "changed-since"
    OUTSIDE_LOG = "outside-log"
    MOVES_BACKWARDS = "moves-backwards"
    SKIPS_RECORDS = "skips-records"

    @property
    def overridable(self) -> bool:
        """Whether it can be overridden; if not, Kafka itself would refuse the commit."""
        return self not in (Precheck.NOT_READABLE, Precheck.GROUP_TYPE, Precheck.GROUP_ACTIVE)


OVERRIDABLE = tuple(precheck.value for precheck in Precheck if precheck.overridable)

_MEMBERS_SHOWN = 3
_NOT_LOOKED_AT = Unavailable("it was not read")


class Blocker(NamedTuple):
    """A failed precheck and its reason."""

    precheck: Precheck
    reason: str
    final: bool


class Case(NamedTuple):
    """One wanted offset and the state of the cluster.

    Attributes:
        unproven: whether to commit it although it skips records under a condition.
        epoch_end: end offset of the records up to the committed leader epoch; None if unknown.
    """

    wanted: Wanted
    group: Group | Unavailable
    before: Committed | Unavailable | None
    log: OffsetRange | Unavailable
    unproven: bool = False
    epoch_end: int | None = None


def blockers(case: Case) -> Iterator[Blocker]:
    """Yield every failed precheck."""
    for precheck, check in _CHECKS.items():
        if reason := check(case):
            final = not precheck.overridable or (
                case.wanted.to is None and precheck is Precheck.BLOCKED
            )
            yield Blocker(precheck, reason, final)


def members_in_words(group: Group) -> str:
    """Describe the state of a group and its members."""
    if not group.members:
        return f"it is {group.state.value}"
    shown = [f"{member.client_id}@{member.host}" for member in group.members[:_MEMBERS_SHOWN]]
    more = len(group.members) - len(shown)
    rest = [f"{more} more"] if more else []
    return f"it is {group.state.value}, with {', '.join(shown + rest)}"


def _not_readable(case: Case) -> str:
    if case.wanted.blocked and case.wanted.to is None:
        return ""
    found = (case.group, case.before, case.log)
    return next((each.reason for each in found if isinstance(each, Unavailable)), "")


def _group_type(case: Case) -> str:
    protocol = case.group.protocol if isinstance(case.group, Group) else None
    if protocol is GroupProtocol.SHARE:
        return "a share group has no committed offsets"
    if protocol is GroupProtocol.STREAMS:
        return "streams groups are not supported: use kafka-streams-groups.sh"
    return ""


def _group_active(case: Case) -> str:
    if isinstance(case.group, Group) and case.group.active:
        return f"the group may be active: {members_in_words(case.group)}"
    return ""


def _changed_since(case: Case) -> str:
    if case.wanted.undoes is None or isinstance(case.before, Unavailable):
        return ""
    written = case.wanted.undoes.position
    if case.before in (written, case.wanted.to):
        return ""
    before, left = (
        str(each.offset) if isinstance(each, Committed) else "none"
        for each in (case.before, written)
    )
    return f"the committed offset is {before}, the run had committed {left}"


def _outside_log(case: Case) -> str:
    if case.wanted.to is None or isinstance(case.log, Unavailable):
        return ""
    start, end = case.log
    offset = case.wanted.to.offset
    if offset < start:
        return f"log start offset is {start}: consumers would fall back to auto.offset.reset"
    if offset > end:
        return f"end offset is {end}: consumers would fall back to auto.offset.reset"
    return ""


def _moves_backwards(case: Case) -> str:
    to, before = case.wanted.to, case.before
    if case.wanted.undoes is not None or to is None or not isinstance(before, Committed):
        return ""
    return f"the group has already committed {before.offset}" if to.offset < before.offset else ""


def _skips_records(case: Case) -> str:
    skips, bounds = skips_at_most(case), case.wanted.bounds
    if skips == 0 or (case.unproven and bounds is not None and bounds.skips_only_if):
        return ""
    if skips is None and bounds is not None and bounds.skips_only_if:
        return f"would skip records if {bounds.skips_only_if}"
    if skips is None:
        return "may skip an unknown number of records"
    if case.wanted.bounds is None:
        return f"may skip {plural(skips, 'offset')}: there is no evidence that they were consumed"
    return f"may skip up to {plural(skips, 'record')}"


def rereads_at_most(case: Case) -> int | None:
    """Return how many records the group would re-read at most; None if unknown."""
    to, before, bounds = case.wanted.to, case.before, case.wanted.bounds
    if to is None:
        return None
    back = max(0, before.offset - to.offset) if isinstance(before, Committed) else 0
    if bounds is None:
        return back
    if bounds.skips_only_if and isinstance(case.log, OffsetRange):
        # Unknown: what was consumed after the evidence. The target log may have grown since.
        return max(back, case.log.end - to.offset)
    return None if bounds.rereads_at_most is None else max(back, bounds.rereads_at_most)


def skips_at_most(case: Case) -> int | None:
    """Return how many records the group would skip at most; None if unknown.

    Records that the group has consumed, according to the evidence, do not count as skipped,
    whatever offset is committed now.
    """
    to, before, bounds = case.wanted.to, case.before, case.wanted.bounds
    if bounds is not None:
        return bounds.skips_at_most if to is not None else 0
    if case.wanted.undoes is not None or to is None or not isinstance(before, Committed):
        return 0
    return max(0, to.offset - before.offset)


_CHECKS: dict[Precheck, Callable[[Case], str]] = {
    Precheck.NOT_READABLE: _not_readable,
    Precheck.GROUP_TYPE: _group_type,
    Precheck.GROUP_ACTIVE: _group_active,
    Precheck.BLOCKED: lambda case: case.wanted.blocked,
    Precheck.CHANGED_SINCE: _changed_since,
    Precheck.OUTSIDE_LOG: _outside_log,
    Precheck.MOVES_BACKWARDS: _moves_backwards,
    Precheck.SKIPS_RECORDS: _skips_records,
}


class Action(StrEnum):
    """The action for one group and partition."""

    COMMIT = "commit"
    DELETE = "delete"
    """Delete the committed offset: the group had none before."""
    SAME = "same"
    """Already committed."""
    KEPT = "kept"
    """A higher offset is committed and is kept."""
    REFUSED = "refused"


WRITES = frozenset({Action.COMMIT, Action.DELETE})


@dataclass(frozen=True, slots=True)
class Line:
    """The plan for one group in one partition.

    Attributes:
        before: the offset committed now; None if there is none or it could not be read.
        to: the offset to commit; None to delete it.
        precheck: the precheck that refused it; None if none did.
        reason: why it is refused or kept, or why an unchanged offset is committed again.
        overridden: prechecks that failed and were overridden.
        rereads_likely: with an unreachable source, if the group consumed nothing since the
            evidence; None if unknown, or if the source is reachable.
        skips_only_if: condition under which it skips more than `skips_at_most` records; empty if
            the source is reachable.
        based_on: the evidence for the offset.
    """

    group: str
    partition: TopicPartition
    before: Committed | None
    to: Committed | None
    rereads_at_most: int | None
    skips_at_most: int | None
    action: Action
    precheck: Precheck | None = None
    reason: str = ""
    overridden: tuple[Precheck, ...] = ()
    rereads_likely: int | None = None
    skips_only_if: str = ""
    based_on: BasedOn = NOTHING


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """A plan for committing offsets.

    Attributes:
        origin: where the wanted offsets come from.
        overrides: overridden prechecks with their reasons.
        notes: warnings.
    """

    cluster: str
    cluster_id: str
    origin: str
    made: datetime
    lines: tuple[Line, ...]
    overrides: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def writes(self) -> tuple[Line, ...]:
        """Lines that change a committed offset."""
        return tuple(line for line in self.lines if line.action in WRITES)

    @property
    def counts(self) -> Mapping[Action, int]:
        """Number of lines per action."""
        found = Counter(line.action for line in self.lines)
        return {action: found[action] for action in Action}

    @property
    def refused(self) -> tuple[Line, ...]:
        """Lines that a precheck refuses."""
        return tuple(line for line in self.lines if line.precheck is not None)


def build_plan(
    wanted: Sequence[Wanted],
    state: TargetState,
    *,
    cluster: str,
    cluster_id: str,
    origin: str,
    made: datetime,
    overrides: Mapping[str, str] = MappingProxyType({}),
    notes: Sequence[str] = (),
    unproven: bool = False,
) -> ApplyPlan:
    """Build a plan with one line per wanted offset, by group, topic and partition.

    Args:
        unproven: whether to commit offsets that skip records only under a condition, if the source
            is unreachable (`policy.unproven_offsets`).
    """
    overridden = frozenset(overrides)
    lines = []
    for row in wanted:
        held = state.committed.get(row.group, _NOT_LOOKED_AT)
        before = held if isinstance(held, Unavailable) else held.get(row.partition)
        group = state.groups.get(row.group, _NOT_LOOKED_AT)
        log = state.logs.get(row.partition, _NOT_LOOKED_AT)
        epoch = before.leader_epoch if isinstance(before, Committed) else -1
        end = state.epoch_ends.get((row.partition, epoch))
        end = end if isinstance(end, int) else None
        lines.append(_line(Case(row, group, before, log, unproven, end), overridden))
    lines.sort(key=lambda line: (line.group, line.partition))
    return ApplyPlan(cluster, cluster_id, origin, made, tuple(lines), overrides, tuple(notes))


def _line(case: Case, overridden: frozenset[str]) -> Line:
    wanted = case.wanted
    committed = _is_committed(case)
    failing = () if committed and not wanted.blocked else tuple(blockers(case))
    blocker = next((o for o in failing if o.final or o.precheck not in overridden), None)
    if blocker is not None:
        action = Action.REFUSED
    elif committed:
        action = Action.SAME
    else:
        action = Action.DELETE if wanted.to is None else Action.COMMIT
    line = Line(
        wanted.group,
        wanted.partition,
        None if isinstance(case.before, Unavailable) else case.before,
        wanted.to,
        rereads_at_most(case),
        skips_at_most(case),
        action,
        precheck=blocker.precheck if blocker else None,
        reason=blocker.reason if blocker else "",
        overridden=()
        if action in (Action.REFUSED, Action.SAME)
        else tuple(o.precheck for o in failing),
        rereads_likely=wanted.bounds.rereads_likely if wanted.bounds else None,
        skips_only_if=wanted.bounds.skips_only_if if wanted.bounds else "",
        based_on=wanted.based_on,
    )
    if line.precheck is Precheck.MOVES_BACKWARDS:
        line = _kept(line)
    return _without_epoch(line, case)


def _without_epoch(line: Line, case: Case) -> Line:
    """Commit an unchanged offset without its leader epoch, if consumers could not resume with it.

    If the epoch of an offset ends in this log before that offset, consumers resume where it ends.
    If the epoch is higher than the leader's, Java consumers wait for ever (KIP-320).
    """
    before, end = line.before, case.epoch_end
    stays = case.wanted.bounds is not None and line.action in (Action.SAME, Action.KEPT)
    if not stays or before is None or end is None:
        return line
    # A log that was truncated ends an epoch too: only a translation proves the offset then.
    if end >= max(1, before.offset) or (line.action is Action.KEPT and end):
        return line
    if blocker := next((each for each in blockers(case) if not each.precheck.overridable), None):
        return replace(
            line, action=Action.REFUSED, precheck=blocker.precheck, reason=blocker.reason
        )
    ahead = before.offset - line.to.offset if line.to else 0
    most = line.rereads_at_most
    if most is not None and not line.skips_only_if:
        most = max(0, most - ahead)
    return replace(
        line,
        to=before._replace(leader_epoch=-1),
        rereads_at_most=most,
        action=Action.COMMIT,
        precheck=None,
        reason=f"the offset is kept but its leader epoch {before.leader_epoch} is removed, because"
        " consumers could not resume with that epoch",
    )


def _kept(line: Line) -> Line:
    """Keep a committed offset that is higher than the evidence.

    The evidence allows for an offset that is higher by up to `rereads_likely`. How many records an
    even higher offset skips is unknown.
    """
    line = replace(line, action=Action.KEPT)
    if not line.skips_only_if or line.before is None or line.to is None:
        return line
    ahead = line.before.offset - line.to.offset
    likely, most = line.rereads_likely, line.rereads_at_most
    known = likely is not None and ahead <= likely
    return replace(
        line,
        rereads_at_most=None if most is None else max(0, most - ahead),
        rereads_likely=None if likely is None else max(0, likely - ahead),
        skips_at_most=line.skips_at_most if known else None,
        skips_only_if=line.skips_only_if if known else COMMITTED_AHEAD,
    )


def _is_committed(case: Case) -> bool:
    """Whether the wanted offset is committed; translations do not compare epoch or metadata."""
    to, before = case.wanted.to, case.before
    if isinstance(before, Unavailable):
        return False
    if case.wanted.bounds is not None and to is not None and before is not None:
        return to.offset == before.offset
    return to == before
