"""Plans the recovery of failed connectors: restart, reset or recreate, or manual repair."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from drctl.connectors.diagnosis import ConnectorHealth, Explained, worst
from drctl.connectors.remedies import Remedy, consequence, steps
from drctl.model.errors import UsageError
from drctl.model.replication import Connector


@dataclass(frozen=True, slots=True)
class Row:
    """A restart attempt.

    Attributes:
        delay_seconds: the pause before it.
        total_seconds: all pauses up to it.
    """

    attempt: Annotated[int, ("minimum", 1)]
    delay_seconds: float
    total_seconds: float


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff, with Debezium's defaults."""

    initial_s: float = 1.0
    maximum_s: float = 120.0
    attempts: int = 16

    def __post_init__(self) -> None:
        """Reject impossible values.

        Raises:
            UsageError: a value is out of range.
        """
        if not 0 < self.initial_s <= self.maximum_s or self.attempts < 1:
            raise UsageError(
                f"invalid backoff: {self.attempts} attempts, {self.initial_s:g} s to"
                f" {self.maximum_s:g} s",
                "use at least one attempt, and an initial backoff that does not exceed the maximum",
            )

    def rows(self) -> Iterator[Row]:
        """The schedule of all attempts."""
        delay, total = self.initial_s, 0.0
        for attempt in range(1, self.attempts + 1):
            total += delay
            yield Row(attempt, delay, total)
            delay = min(2 * delay, self.maximum_s)


PRECHECK = "cause"
"""The only precheck: the stack trace shows that the action does not help."""


class Action(StrEnum):
    """The planned action for a connector."""

    RESTART = "restart"
    REMEDY = "remedy"
    NOTHING = "nothing"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class RecoverLine:
    """One connector of a plan.

    Attributes:
        steps: steps of the remedy.
        consequence: consequence of the remedy for the data.
        refused: what blocks it.
    """

    connector: Connector
    action: Action
    explained: Explained | None = None
    steps: tuple[str, ...] = ()
    consequence: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class RecoverPlan:
    """A recovery plan for connectors of one Connect cluster.

    Attributes:
        name: the connector that the remedy leaves running; empty without a remedy.
        overrides: precheck to the reason why it is overridden.
    """

    workers: str
    lines: tuple[RecoverLine, ...]
    overrides: Mapping[str, str]
    remedy: Remedy | None = None
    name: str = ""

    @property
    def restarted(self) -> tuple[str, ...]:
        """Connectors that would be restarted."""
        found = (line for line in self.lines if line.action is Action.RESTART)
        return tuple(line.connector.name for line in found)

    @property
    def refused(self) -> tuple[RecoverLine, ...]:
        """Connectors whose recovery is blocked."""
        return tuple(line for line in self.lines if line.action is Action.REFUSE)

    @property
    def acting(self) -> bool:
        """Whether the plan changes anything."""
        return any(line.action in (Action.RESTART, Action.REMEDY) for line in self.lines)


def restart_plan(
    health: ConnectorHealth, connectors: Sequence[Connector], overrides: Mapping[str, str]
) -> RecoverPlan:
    """Plan restarts of failed connectors if that may help."""
    lines = tuple(_restart(each, bool(overrides)) for each in connectors)
    return RecoverPlan(health.workers, lines, overrides)


def remedy_plan(
    health: ConnectorHealth,
    connector: Connector,
    remedy: Remedy,
    name: str,
    overrides: Mapping[str, str],
) -> RecoverPlan:
    """Plan to start a connector from scratch.

    Raises:
        UsageError: the new name is taken.
    """
    if remedy is Remedy.RESET:
        name = connector.name
    elif name in {each.name for each in health.connectors}:
        raise UsageError(f"connector {name!r} already exists", "choose another name: --as")
    found = worst(connector)
    lost = found is not None and found.cause.lost
    refused = ""
    if not lost and not overrides:
        state = found.advice.message if found else f"it is {connector.state}, and nothing failed"
        refused = f"nothing shows that its resume point is lost: {state}"
    action = Action.REFUSE if refused else Action.REMEDY
    line = RecoverLine(
        connector, action, found, steps(remedy, connector, name), consequence(connector), refused
    )
    return RecoverPlan(health.workers, (line,), overrides, remedy, name)


def _restart(connector: Connector, overridden: bool) -> RecoverLine:
    found = worst(connector)
    if found is None:
        return RecoverLine(connector, Action.NOTHING)
    if found.cause.passes or overridden:
        return RecoverLine(connector, Action.RESTART, found)
    refused = f"{found.advice.message}; {found.advice.remedy}"
    return RecoverLine(connector, Action.REFUSE, found, refused=refused)
