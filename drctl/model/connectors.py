"""Connectors as their Connect workers tell of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Task(NamedTuple):
    """A task of a connector.

    Attributes:
        trace: first line of what it failed with; empty where it did not.
    """

    number: int
    state: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as Connect's REST interface tells it.

    Attributes:
        kind: `source` or `sink`.
        config: as it was given. It may hold passwords: checks read named keys only.
        state: RUNNING, PAUSED, STOPPED, FAILED, ...; empty where nobody asked.
        trace: first line of what it failed with; empty where it did not.
    """

    name: str
    kind: str
    config: Mapping[str, str]
    state: str = ""
    tasks: tuple[Task, ...] = ()
    trace: str = ""


class ConnectorLister(Protocol):
    """Looks at all connectors of some workers at once."""

    def described(self) -> Mapping[str, Connector]:
        """Every connector with its configuration and its tasks, by name.

        Raises:
            Unreachable: no worker answered within the deadline.
        """
