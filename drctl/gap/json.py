"""Converts values of this package to JSON and back, from their type annotations.

New fields need no change here; data that does not match the types is rejected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

Reader = Callable[[Any], Any]

_PLAIN = (str, int, float, bool, NoneType)


def plain(value: object) -> Any:
    """Convert a value to JSON data. Mappings become lists of pairs, as not all keys are strings.

    Raises:
        TypeError: the type is not supported.
    """
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, _PLAIN):
        return value
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.init}
    if isinstance(value, Mapping):
        return [[plain(key), plain(inner)] for key, inner in value.items()]
    if isinstance(value, frozenset):
        return [plain(inner) for inner in sorted(value, key=repr)]
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [plain(inner) for inner in value]
    raise TypeError(f"no JSON for {type(value).__name__}")


def restored(kind: Any, data: Any) -> Any:
    """Convert JSON data from `plain` back to a value of this type.

    Raises:
        ValueError: the data does not match the type.
    """
    return reader(kind)(data)


@cache
def reader(kind: Any) -> Reader:
    """Return the function that converts JSON data to this type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return lambda data: _of_type(kind, data)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if is_dataclass(kind):
        return _dataclass_reader(kind)
    if origin in (Union, UnionType):
        return _optional_reader(arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(*arguments)
    if origin is frozenset:
        return lambda data: frozenset(map(reader(arguments[0]), _list(data)))
    if origin is tuple and arguments[-1:] != (...,):
        return _row_reader(tuple, arguments)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return lambda data: tuple(map(reader(arguments[0]), _list(data)))
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _row_reader(lambda parts: kind(*parts), tuple(get_type_hints(kind).values()))
    raise TypeError(f"no JSON for {kind}")


def _dataclass_reader(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    readers = {f.name: reader(hints[f.name]) for f in fields(kind) if f.init}

    def read(data: Any) -> Any:
        if not isinstance(data, dict) or data.keys() != readers.keys():
            raise ValueError(f"not a {kind.__name__}")
        return kind(**{name: readers[name](inner) for name, inner in data.items()})

    return read


def _optional_reader(kinds: Sequence[Any]) -> Reader:
    (other,) = (reader(kind) for kind in kinds if kind is not NoneType)
    return lambda data: None if data is None else other(data)


def _mapping_reader(key: Any, value: Any) -> Reader:
    pair = _row_reader(tuple, (key, value))
    return lambda data: dict(map(pair, _list(data)))


def _row_reader(make: Callable[[Any], Any], kinds: Sequence[Any]) -> Reader:
    readers = tuple(map(reader, kinds))

    def read(data: Any) -> Any:
        if len(_list(data)) != len(readers):
            raise ValueError(f"expected {len(readers)} items, got {len(data)}")
        return make([each(inner) for each, inner in zip(readers, data, strict=True)])

    return read


def _of_type(kind: Any, data: Any) -> Any:
    if type(data) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(data).__name__}")
    return data


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise ValueError(f"expected list, got {type(data).__name__}")
    return data
