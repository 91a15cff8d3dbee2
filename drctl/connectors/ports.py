"""What the cure of connectors needs from outside: to look, and to change."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from drctl.connectors.connector import Connector, Position


class Workers(Protocol):
    """Looks at the connectors of one Connect cluster."""

    def all(self) -> Mapping[str, Connector]:
        """Every connector, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def positions(self, name: str) -> tuple[Position, ...]:
        """How far a connector got.

        Raises:
            UsageError: there is none of this name.
            Unreachable: no worker answered within the deadline.
        """


class WorkersWriter(Protocol):
    """Changes the connectors of one Connect cluster."""

    def restart(self, name: str) -> None:
        """Start what failed of it again.

        Raises:
            Unknown: no answer came; it may have been started.
        """

    def stop(self, name: str) -> None:
        """End its tasks; its configuration and positions stay.

        Raises:
            Unknown: no answer came; it may have been stopped.
        """

    def resume(self, name: str) -> None:
        """Let it go on.

        Raises:
            Unknown: no answer came; it may go on.
        """

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        """Make a connector.

        Raises:
            Unknown: no answer came, or it was not accepted.
        """

    def put_positions(self, name: str, positions: Sequence[Position]) -> None:
        """Have a stopped connector go on from there; None takes a position away.

        Raises:
            Refused: they were not accepted.
            Unknown: no answer came; they may have been taken.
        """

    def delete_positions(self, name: str) -> None:
        """Have a stopped connector forget how far it got.

        Raises:
            Unknown: no answer came, or it was not accepted.
        """


class Clock(Protocol):
    """Time, and the wish to stop."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wait(self, seconds: float) -> None:
        """Return after this time, or as soon as somebody wants to stop."""

    @property
    def stopping(self) -> bool:
        """Whether somebody wants to stop."""
