"""Reads a Connect worker's documents about connectors, and checks their shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

_CAUSE = "Caused by: "
_JSON: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    type(None): "missing",
}


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task of a connector.

    Attributes:
        trace: first line of the Java exception, and its cause; empty while it runs.
    """

    number: int
    state: str
    worker: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector and its tasks; states are Connect's: RUNNING, PAUSED, STOPPED, FAILED, ..."""

    name: str
    state: str
    worker: str
    tasks: tuple[TaskStatus, ...]
    trace: str = ""

    def all_in(self, state: str) -> bool:
        """Whether the connector and all its tasks are in this state."""
        return self.state == state and all(task.state == state for task in self.tasks)


def read_status(document: Any) -> ConnectorStatus:
    """From the JSON of `/connectors/NAME/status`.

    Raises:
        ValueError: it is not of that shape.
    """
    connector = member(document, "connector", dict)
    return ConnectorStatus(
        member(document, "name", str),
        *_state(connector),
        tuple(
            TaskStatus(member(task, "id", int), *_state(task), _first_line(task))
            for task in member(document, "tasks", list)
        ),
        _first_line(connector),
    )


def read_config(document: Any) -> dict[str, str]:
    """From the JSON of `/connectors/NAME/config`.

    Raises:
        ValueError: it is not of that shape.
    """
    told = {k: v for k, v in checked(document, dict).items() if v is not None}
    if not all(isinstance(value, str | int | float) for value in told.values()):
        raise ValueError("a value of a configuration is no text")
    return {key: str(value) for key, value in told.items()}


def member(document: Any, name: str, kind: type[T]) -> T:
    """What an object holds under this name.

    Raises:
        ValueError: there is no object, or nothing of this kind in it.
    """
    return checked(checked(document, dict).get(name), kind, f"`{name}`")


def checked(value: Any, kind: type[T], what: str = "the answer") -> T:
    """The value, which is of this kind.

    Raises:
        ValueError: it is not.
    """
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ValueError(f"{what} is {_JSON.get(type(value), 'a number')}, not {_JSON[kind]}")
    return value


def _state(document: Any) -> tuple[str, str]:
    state = member(document, "state", str)
    return state, checked(document.get("worker_id") or "", str, "`worker_id`")


def _first_line(document: Mapping[str, Any]) -> str:
    lines = str(document.get("trace") or "").splitlines()
    causes = [line.partition(_CAUSE)[2] for line in lines if line.startswith(_CAUSE)]
    return "; by ".join((*lines[:1], *causes[-1:]))
