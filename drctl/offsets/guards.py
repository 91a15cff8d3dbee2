"""What stands against writing a position; one function a guard.

The order is the one in which a person would want to hear them.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

from drctl.model.groups import Committed, Group, GroupProtocol
from drctl.model.topology import OffsetRange, Unavailable
from drctl.offsets.wanted import Wanted


class Guard(StrEnum):
    """Why a position is not written; the names stand behind `--override`."""

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
        """Whether an engineer may pass over it; where not, Kafka itself would refuse."""
        return self not in _FINAL


_FINAL = frozenset({Guard.NOT_READABLE, Guard.GROUP_TYPE, Guard.GROUP_ACTIVE})
_MEMBERS_TOLD = 3


class Objection(NamedTuple):
    """A guard that fails, in words for a person."""

    guard: Guard
    reason: str
    final: bool = False


class Case(NamedTuple):
    """One wanted position and what the cluster says of it.

    Attributes:
        unproven: whether it is written though it skips records under a condition.
    """

    wanted: Wanted
    group: Group | Unavailable
    before: Committed | Unavailable | None
    log: OffsetRange | Unavailable
    unproven: bool = False


def objections(case: Case) -> Iterator[Objection]:
    """Every guard that fails."""
    for guard, check in _CHECKS.items():
        if reason := check(case):
            final = not guard.overridable or (case.wanted.to is None and guard is Guard.BLOCKED)
            yield Objection(guard, reason, final)


def members_in_words(group: Group) -> str:
    """Who reads in a group."""
    if not group.members:
        return f"it is {group.state.value}"
    told = [f"{member.client_id}@{member.host}" for member in group.members[:_MEMBERS_TOLD]]
    more = len(group.members) - len(told)
    rest = [f"{more} more"] if more else []
    return f"it is {group.state.value}, with {', '.join(told + rest)}"


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


def _blocked(case: Case) -> str:
    return case.wanted.blocked


def _changed_since(case: Case) -> str:
    if case.wanted.undoes is None or isinstance(case.before, Unavailable):
        return ""
    written = case.wanted.undoes.position
    if case.before in (written, case.wanted.to):
        return ""
    return f"it stands at {_told(case.before)}, not at {_told(written)} where the run left it"


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
    """How many records the group would read again; None where nobody knows."""
    to, before, bounds = case.wanted.to, case.before, case.wanted.bounds
    if to is None:
        return None
    back = max(0, before.offset - to.offset) if isinstance(before, Committed) else 0
    if bounds is None:
        return back
    if bounds.skips_only_if and isinstance(case.log, OffsetRange):
        # Who consumed what since the evidence nobody knows; the target may have grown meanwhile.
        return max(back, case.log.end - to.offset)
    return None if bounds.rereads_at_most is None else max(back, bounds.rereads_at_most)


def skips_at_most(case: Case) -> int | None:
    """How many records the group would never read; None where nobody knows.

    Records that evidence says were read are not skipped, wherever the group stands now.
    """
    to, before, bounds = case.wanted.to, case.before, case.wanted.bounds
    if bounds is not None:
        return bounds.skips_at_most if to is not None else 0
    if case.wanted.undoes is not None or to is None or not isinstance(before, Committed):
        return 0
    return max(0, to.offset - before.offset)


def _told(position: Committed | Unavailable | None) -> str:
    return str(position.offset) if isinstance(position, Committed) else "no position"


_CHECKS: dict[Guard, Callable[[Case], str]] = {
    Guard.NOT_READABLE: _not_readable,
    Guard.GROUP_TYPE: _group_type,
    Guard.GROUP_ACTIVE: _group_active,
    Guard.BLOCKED: _blocked,
    Guard.CHANGED_SINCE: _changed_since,
    Guard.OUTSIDE_LOG: _outside_log,
    Guard.MOVES_BACKWARDS: _moves_backwards,
    Guard.SKIPS_RECORDS: _skips_records,
}
