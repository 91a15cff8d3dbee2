"""Plans which positions are written to which connectors of another Connect cluster."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from drctl.connectors.connector import SINK, STOPPED, Connector, Partition, Position
from drctl.connectors.ports import Workers
from drctl.connectors.positions import Export, Kept
from drctl.connectors.translating import translate
from drctl.model.errors import UsageError
from drctl.model.overrides import reasons_given


class Guard(StrEnum):
    """Why a position is not written."""

    NO_CONNECTOR = "no-connector"
    NOT_STOPPED = "not-stopped"
    MISFIT = "misfit"
    UNKNOWN = "unknown-partition"
    UNREAD = "unread"
    SINK = "sink"

    @property
    def overridable(self) -> bool:
        """Whether an engineer may pass it over."""
        return self in (Guard.MISFIT, Guard.UNKNOWN)


class Action(StrEnum):
    """What is to be done about a position."""

    WRITE = "write"
    KEEP = "keep"
    """It is there already."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Line:
    """One position.

    Attributes:
        connector: on the other workers.
        came_from: the name of the connector that it is taken from.
        before: what stands there now; None for none.
        to: None takes it away.
    """

    connector: str
    came_from: str
    partition: Partition
    action: Action
    before: Mapping[str, Any] | None = None
    to: Mapping[str, Any] | None = None
    guard: Guard | None = None
    reason: str = ""
    overridden: bool = False


@dataclass(frozen=True, slots=True)
class OffsetsPlan:
    """All positions.

    Attributes:
        workers: that are written to.
        origin: where the positions come from, in words.
    """

    workers: str
    origin: str
    lines: tuple[Line, ...]
    overrides: Mapping[Guard, str]

    @property
    def writes(self) -> tuple[Line, ...]:
        """What would be written."""
        return tuple(line for line in self.lines if line.action is Action.WRITE)

    @property
    def refused(self) -> tuple[Line, ...]:
        """What something stands against."""
        return tuple(line for line in self.lines if line.action is Action.REFUSE)


def parse_overrides(given: Iterable[str]) -> dict[Guard, str]:
    """`GUARD=REASON` as typed.

    Raises:
        UsageError: there is no such guard, it cannot be passed over, or no reason is given.
    """
    known = [guard.value for guard in Guard if guard.overridable]
    return {Guard(name): reason for name, reason in reasons_given(given, known).items()}


def build_plan(
    export: Export,
    names: Collection[str],
    renamed: Mapping[str, str],
    workers: Workers,
    where: str,
    overrides: Mapping[Guard, str],
) -> OffsetsPlan:
    """Look at the other workers, and say what would be written.

    Args:
        names: of connectors of the export; none takes all.
        renamed: what some of them are called on the other workers.

    Raises:
        UsageError: the export has no such connector.
        Unreachable: no worker answered.
    """
    known = {each.name: each for each in export.connectors}
    if missing := sorted({*names, *renamed} - known.keys()):
        raise UsageError(
            f"there is no connector {missing[0]!r} in it", f"it holds: {', '.join(known)}"
        )
    chosen = [each for each in export.connectors if not names or each.name in names]
    there = workers.all()
    lines: list[Line] = []
    for each in chosen:
        to = renamed.get(each.name, each.name)
        lines += _lines(each, to, there.get(to), workers, overrides)
    origin = f"{export.workers}, {export.taken}"
    return OffsetsPlan(where, origin, tuple(lines), dict(overrides))


def _lines(
    kept: Kept,
    name: str,
    to: Connector | None,
    workers: Workers,
    overrides: Mapping[Guard, str],
) -> Iterator[Line]:
    against = _against(kept, name, to)
    if against or to is None:
        guard, reason = against or (Guard.NO_CONNECTOR, "")
        for each in kept.positions or (Position({}, None),):
            yield Line(name, kept.name, each.partition, Action.REFUSE, None, None, guard, reason)
        return
    now = workers.positions(name)
    for each in kept.positions:
        found = translate(kept, each.partition, to)
        before = next((p.offset for p in now if p.partition == found.partition), None)
        guard = Guard.UNKNOWN if found.unknown else Guard.MISFIT
        passed = bool(found.doubt) and guard in overrides
        same = before == each.offset
        action = Action.KEEP if same else Action.WRITE
        yield Line(
            name,
            kept.name,
            found.partition,
            Action.REFUSE if found.doubt and not passed else action,
            before,
            each.offset,
            guard if found.doubt else None,
            found.doubt,
            passed,
        )


def _against(kept: Kept, name: str, to: Connector | None) -> tuple[Guard, str] | None:
    """What concerns all positions of a connector, and nobody may pass over."""
    if kept.unread:
        return Guard.UNREAD, f"its positions could not be read: {kept.unread}"
    if kept.kind == SINK:
        return Guard.SINK, (
            f"its positions are those of group {kept.group}, which are translated with its"
            " topics: drctl offsets apply"
        )
    if to is None:
        return Guard.NO_CONNECTOR, (
            f"there is no connector {name} on these workers: make it with initial_state STOPPED,"
            " or give --rename"
        )
    if to.state != STOPPED:
        return Guard.NOT_STOPPED, (
            f"connector {name} is {to.state}: Connect takes positions of stopped ones only (PUT"
            f" /connectors/{name}/stop)"
        )
    return None
