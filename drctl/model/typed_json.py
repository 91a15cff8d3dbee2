"""Frozen dataclasses to JSON and back, for plans and journals.

A dataclass becomes an object, a NamedTuple an array. Settings and intents omit fields with their
default; facts do not, because other tools read them. A missing field gets its default, so that
older documents stay readable. Unknown keys are ignored.
"""

import reprlib
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")

Number = int | float
"""A number such as a duration: 60 stays 60 and does not become 60.0."""

_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}
"""Created on first use: creating an adapter takes longer than reading with it."""


def read_as(form: type[T], data: object) -> T:
    """Read a value from the result of `to_json`.

    Raises:
        ValueError: the data does not match; the message names each problem and its path.
    """
    try:
        found: T = _adapter(form).validator.validate_python(data)
        return found
    except ValidationError as wrong:
        raise ValueError("; ".join(map(_described, wrong.errors(include_url=False)))) from wrong


def to_json(value: object, *, whole: bool = False) -> dict[str, Any]:
    """Return the JSON form for plans and journals.

    Args:
        whole: whether to include fields with their default.
    """
    found: dict[str, Any] = _adapter(type(value)).dump_python(
        value, mode="json", by_alias=True, exclude_defaults=not whole
    )
    return found


def _adapter(form: Any) -> TypeAdapter[Any]:
    if form not in _ADAPTERS:
        _ADAPTERS[form] = TypeAdapter(form)
    return _ADAPTERS[form]


def _described(error: Mapping[str, Any]) -> str:
    where = ".".join(map(str, error["loc"])) or "it"
    if error["type"] == "missing":
        return f"{where} is missing"
    # A modified journal may hold megabytes in place of a word.
    return (
        f"{where} is {reprlib.repr(error['input'])}: not a valid {error['type'].partition('_')[0]}"
    )
