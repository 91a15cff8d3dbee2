"""Reads a Connect worker's documents about connectors, and checks their shape."""

from collections.abc import Mapping
from typing import Any, TypeVar

from drctl.model.replication import Connector, Task

T = TypeVar("T")

_JSON: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    bool: "true or false",
    type(None): "missing",
}


def read_connector(name: str, status: Any, info: Any = None) -> Connector:
    """Parse the JSON of its status and, if requested, of its configuration.

    Raises:
        ValueError: it does not have that form.
    """
    own = member(status, "connector", dict)
    kind = checked((info or {}).get("type") or status.get("type", ""), str, "`type`")
    return Connector(
        name,
        kind,
        {} if info is None else read_config(info.get("config")),
        tasks=tuple(Task(member(t, "id", int), **_state(t)) for t in member(status, "tasks", list)),
        **_state(own),
    )


def read_config(document: Any) -> dict[str, str]:
    """Parse the JSON of `/connectors/NAME/config`.

    Raises:
        ValueError: it does not have that form.
    """
    config = {k: v for k, v in checked(document, dict).items() if v is not None}
    if not all(isinstance(value, str | int | float) for value in config.values()):
        raise ValueError("a value of a configuration is not text")
    return {key: str(value) for key, value in config.items()}


def member(document: Any, name: str, kind: type[T]) -> T:
    """The member of an object, of this type.

    Raises:
        ValueError: it is not an object, or has no such member.
    """
    return checked(checked(document, dict).get(name), kind, f"`{name}`")


def checked(value: Any, kind: type[T], what: str = "the answer") -> T:
    """Check the type of a value.

    Raises:
        ValueError: it has another type.
    """
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ValueError(f"{what} is {_JSON.get(type(value), 'a number')}, not {_JSON[kind]}")
    return value


def _state(document: Mapping[str, Any]) -> dict[str, str]:
    return {
        "state": member(document, "state", str),
        "stack_trace": str(document.get("trace") or ""),
        "worker": checked(document.get("worker_id") or "", str, "`worker_id`"),
    }
