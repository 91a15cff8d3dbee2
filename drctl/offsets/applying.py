"""Plans which offsets are committed: from the wanted ones and the cluster's state now.

They come from a translation, a snapshot or a run that is undone. Only `look` asks, and nothing
writes: the same wanted rows and the same state give the same plan.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from drctl.model.groups import Committed, Group, GroupProtocol, Positions
from drctl.model.ports import GroupReader, OffsetReader
from drctl.model.topology import Mark, OffsetRange, TopicPartition, Unavailable
from drctl.model.translation import Translation
from drctl.offsets.translating import COMMITTED_AHEAD, NEVER


class Bounds(NamedTuple):
    """How far off an offset may be; None where that is unknown.

    Attributes:
        rereads_likely: while the source is silent, if the group consumed nothing since.
        skips_only_if: the condition under which more is skipped; empty where the source answers.
            With it, the end of the log is the bound of what is read again.
    """

    rereads_at_most: int | None
    skips_at_most: int | None
    rereads_likely: int | None = None
    skips_only_if: str = ""


class BasedOn(NamedTuple):
    """The evidence for an offset.

    Attributes:
        method: empty where no translation found it.
        age_seconds: None where that is not known.
    """

    method: str = ""
    evidence: str = ""
    age_seconds: float | None = None


NOTHING = BasedOn()


@dataclass(frozen=True, slots=True)
class Wanted:
    """The offset that one group is to have in one partition.

    Attributes:
        partition: on the cluster that is written; where it has none, the source's, and `blocked`.
        to: None to have no committed offset any more.
        bounds: known from the group's records; None where there is only the committed offset to
            compare with.
        blocked: why it must not be applied; empty where it may be.
        based_on: the evidence for it.
        undoes: the offset that a run wrote and this rolls back. The group must have that one, or
            already the one that it is rolled back to.
    """

    group: str
    partition: TopicPartition
    to: Committed | None
    bounds: Bounds | None = None
    blocked: str = ""
    undoes: "Written | None" = None
    based_on: BasedOn = NOTHING


class Translated(NamedTuple):
    """The offsets that the groups of a link are to have.

    Attributes:
        unknown: full-match patterns of the link's groups that match no known group: the source
            does not answer, and there is no evidence of any.
    """

    wanted: tuple[Wanted, ...]
    unknown: tuple[str, ...] = ()


class Written(NamedTuple):
    """The offset that a run wrote; None where it removed it."""

    position: Committed | None


@dataclass(frozen=True, slots=True)
class TargetState:
    """The groups and partitions that are wanted, as the cluster reports them now.

    Attributes:
        logs: log start and end of each partition.
    """

    groups: Mapping[str, Group | Unavailable]
    committed: Mapping[str, Positions | Unavailable]
    logs: Mapping[TopicPartition, OffsetRange | Unavailable]


def look(groups: GroupReader, offsets: OffsetReader, wanted: Iterable[Wanted]) -> TargetState:
    """Ask the cluster; nothing is asked of rows that are blocked without a position.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    asked = [row for row in wanted if row.to is not None or not row.blocked]
    names = tuple(dict.fromkeys(row.group for row in asked))
    logs = log_ranges(offsets, {row.partition for row in asked})
    return TargetState(groups.described(names), groups.committed(names), logs)


def log_ranges(
    offsets: OffsetReader, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, OffsetRange | Unavailable]:
    """Log start and end of each partition.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    places = sorted(partitions)
    if not places:
        return {}
    # Two calls in flight: a partition may stand in a request once.
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
    """The offsets of a translation; rows without an answer are kept, as blocked ones.

    Where a group has never committed there is nothing to apply.
    """
    return tuple(_from_translation(row) for row in rows if row.blocked != NEVER)


def unmatched(patterns: Iterable[str], wanted: Iterable[Wanted]) -> tuple[str, ...]:
    """The full-match patterns that match none of the groups."""
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
    """Why an offset is not committed; the names are those of `--override`."""

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
        """Whether an engineer may override it; where not, Kafka itself would refuse."""
        return self not in (Precheck.NOT_READABLE, Precheck.GROUP_TYPE, Precheck.GROUP_ACTIVE)


OVERRIDABLE = tuple(precheck.value for precheck in Precheck if precheck.overridable)

_MEMBERS_SHOWN = 3
_NOT_LOOKED_AT = Unavailable("it was not looked at")


class Blocker(NamedTuple):
    """A precheck that fails, in words for a person."""

    precheck: Precheck
    reason: str
    final: bool


class Case(NamedTuple):
    """One wanted offset and the cluster's state.

    Attributes:
        unproven: whether it is committed though it skips records under a condition.
    """

    wanted: Wanted
    group: Group | Unavailable
    before: Committed | Unavailable | None
    log: OffsetRange | Unavailable
    unproven: bool = False


def blockers(case: Case) -> Iterator[Blocker]:
    """Every precheck that fails."""
    for precheck, check in _CHECKS.items():
        if reason := check(case):
            final = not precheck.overridable or (
                case.wanted.to is None and precheck is Precheck.BLOCKED
            )
            yield Blocker(precheck, reason, final)


def members_in_words(group: Group) -> str:
    """The state of a group, and its members."""
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
        return "whether a streams group is read in cannot be asked; use kafka-streams-groups"
    return ""


def _group_active(case: Case) -> str:
    if isinstance(case.group, Group) and case.group.active:
        return f"somebody may be reading in the group: {members_in_words(case.group)}"
    return ""


def _changed_since(case: Case) -> str:
    if case.wanted.undoes is None or isinstance(case.before, Unavailable):
        return ""
    written = case.wanted.undoes.position
    if case.before in (written, case.wanted.to):
        return ""
    before, left = (
        str(each.offset) if isinstance(each, Committed) else "no position"
        for each in (case.before, written)
    )
    return f"it stands at {before}, not at {left} where the run left it"


def _outside_log(case: Case) -> str:
    if case.wanted.to is None or isinstance(case.log, Unavailable):
        return ""
    start, end = case.log
    offset = case.wanted.to.offset
    if offset < start:
        return f"the log begins at {start}: a consumer would be reset by its auto.offset.reset"
    if offset > end:
        return f"the log ends at {end}: a consumer would be reset by its auto.offset.reset"
    return ""


def _moves_backwards(case: Case) -> str:
    to, before = case.wanted.to, case.before
    if case.wanted.undoes is not None or to is None or not isinstance(before, Committed):
        return ""
    return f"the group stands at {before.offset} already" if to.offset < before.offset else ""


def _skips_records(case: Case) -> str:
    skips, bounds = skips_at_most(case), case.wanted.bounds
    if skips == 0 or (case.unproven and bounds is not None and bounds.skips_only_if):
        return ""
    if skips is None and bounds is not None and bounds.skips_only_if:
        return f"it would skip records only if {bounds.skips_only_if}"
    if skips is None:
        return "how many records it would skip is not known"
    if case.wanted.bounds is None:
        return f"nothing says that the {skips} offsets before it were read"
    return f"up to {skips} records could be skipped"


def rereads_at_most(case: Case) -> int | None:
    """How many records the group would read again; None where that is unknown."""
    to, before, bounds = case.wanted.to, case.before, case.wanted.bounds
    if to is None:
        return None
    back = max(0, before.offset - to.offset) if isinstance(before, Committed) else 0
    if bounds is None:
        return back
    if bounds.skips_only_if and isinstance(case.log, OffsetRange):
        # What was consumed after the evidence is unknown; the target may have grown meanwhile.
        return max(back, case.log.end - to.offset)
    return None if bounds.rereads_at_most is None else max(back, bounds.rereads_at_most)


def skips_at_most(case: Case) -> int | None:
    """How many records the group would never read; None where that is unknown.

    Records that were read by the evidence are not skipped, whatever the group has committed now.
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
    """What the plan does with one group and partition."""

    COMMIT = "commit"
    DELETE = "delete"
    """The group had no committed offset there before, and is to have none again."""
    SAME = "same"
    """It is committed already."""
    KEPT = "kept"
    """A higher offset is committed, and stays."""
    REFUSED = "refused"


WRITES = frozenset({Action.COMMIT, Action.DELETE})


@dataclass(frozen=True, slots=True)
class Line:
    """What happens to one group in one partition.

    Attributes:
        before: the offset committed now; None where there is none, or it could not be read.
        to: the offset to commit; None to have none.
        precheck: that refused; None where none did.
        reason: why, in words for a person.
        overridden: prechecks that failed and were overridden.
        rereads_likely: while the source is silent, if the group consumed nothing since the
            evidence; None where that is not known, or the source answers.
        skips_only_if: the condition under which it skips more than `skips_at_most` records; empty
            where the source answers.
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
    """What applying would do to a cluster.

    Attributes:
        origin: where the wanted offsets come from, in words for a person.
        overrides: precheck to the reason why it is overridden.
        notes: what a person should know about them.
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
        """The lines that change something."""
        return tuple(line for line in self.lines if line.action in WRITES)

    @property
    def counts(self) -> Mapping[Action, int]:
        """How many lines there are of each action."""
        found = Counter(line.action for line in self.lines)
        return {action: found[action] for action in Action}

    @property
    def refused(self) -> tuple[Line, ...]:
        """The lines that a precheck blocks."""
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
    """One line for each wanted row, by group, topic and partition.

    Args:
        unproven: whether, with the source silent, what skips records only under a condition is
            written (`policy.unproven_offsets`).
    """
    overridden = frozenset(overrides)
    lines = []
    for row in wanted:
        held = state.committed.get(row.group, _NOT_LOOKED_AT)
        before = held if isinstance(held, Unavailable) else held.get(row.partition)
        group = state.groups.get(row.group, _NOT_LOOKED_AT)
        log = state.logs.get(row.partition, _NOT_LOOKED_AT)
        lines.append(_line(Case(row, group, before, log, unproven), overridden))
    lines.sort(key=lambda line: (line.group, line.partition))
    return ApplyPlan(cluster, cluster_id, origin, made, tuple(lines), overrides, tuple(notes))


def _line(case: Case, overridden: frozenset[str]) -> Line:
    wanted = case.wanted
    committed = _is_committed(case)
    failing = () if committed else tuple(blockers(case))
    blocker = next((o for o in failing if o.final or o.precheck not in overridden), None)
    if committed:
        action = Action.SAME
    elif blocker is not None:
        action = Action.REFUSED
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
        overridden=() if blocker else tuple(blocker.precheck for blocker in failing),
        rereads_likely=wanted.bounds.rereads_likely if wanted.bounds else None,
        skips_only_if=wanted.bounds.skips_only_if if wanted.bounds else "",
        based_on=wanted.based_on,
    )
    return _kept(line) if line.precheck is Precheck.MOVES_BACKWARDS else line


def _kept(line: Line) -> Line:
    """A higher offset than the evidence leads to stays: less is read again, more may be skipped.

    Within the uncertainty of the evidence the higher offset may be right; beyond it is not proven.
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
    """Whether nothing is to be done: of a translation only the offset counts, else all of it."""
    to, before = case.wanted.to, case.before
    if isinstance(before, Unavailable) or case.wanted.blocked:
        return False
    if case.wanted.bounds is not None and to is not None and before is not None:
        return to.offset == before.offset
    return to == before
