"""Frozen dataclasses to JSON and back: what goes into plans and journals, and comes out of them.

A dataclass becomes an object, a NamedTuple an array. Settings and intents leave out a field that
has its default, facts do not, for others read them; one that is not there gets it, so that older
documents stay readable. Names that are not known are ignored.
"""

import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

Number = int | float
"""Seconds, for example: 60 stays 60, and does not become 60.0."""

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
"""Made when they are first needed: making them takes longer than reading."""


def read_as(form: type[T], data: object) -> T:
    """From what `to_json` made.

    Raises:
        ValueError: it did not make that; what is wrong, and where.
    """
    try:
        found: T = _adapter(form).validate_python(data)
        return found
    except ValidationError as wrong:
        raise ValueError("; ".join(map(_told, wrong.errors(include_url=False)))) from wrong


def to_json(value: object, *, whole: bool = False) -> dict[str, Any]:
    """As it stands in plans and journals.

    Args:
        whole: whether fields that have their default are there, too.
    """
    found: dict[str, Any] = _adapter(type(value)).dump_python(
        value, mode="json", by_alias=True, exclude_defaults=not whole
    )
    return found


def _adapter(form: Any) -> TypeAdapter[Any]:
    if form not in _ADAPTERS:
        _ADAPTERS[form] = TypeAdapter(form)
    return _ADAPTERS[form]


def _told(error: Mapping[str, Any]) -> str:
    where = ".".join(map(str, error["loc"])) or "it"
    if error["type"] == "missing":
        return f"{where} is missing"
    # A journal may hold megabytes where a word belongs.
    return (
        f"{where} is {reprlib.repr(error['input'])}: not a valid {error['type'].partition('_')[0]}"
    )
