"""The JSON documents that commands print, each declared once as a class.

A document's fields are the keys of the JSON object (`from_` is the key `from`). Its JSON Schema
(`drctl.views.schemas`) has the same fields, described by the docstring. `of` builds a document
from the value that a command works with: each field is the attribute of the same name, or what its
`From` reads.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Self,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    get_type_hints,
    is_typeddict,
)

S = TypeVar("S")
T = TypeVar("T")

# Annotations are part of the JSON Schema only; they validate nothing.
Count = Annotated[int, ("minimum", 0)]
Name = Annotated[str, ("minLength", 1)]
Moment = Annotated[str, ("format", "date-time")]
Seconds = Annotated[float, ("minimum", 0)]

OPTIONAL = ("optional", True)
"""Annotation of a field whose key is omitted if it is None."""

HIDDEN = ("hidden", True)
"""Annotation of a field that is not in the document; `("key", NAME)` renames the key."""

MAYBE = ("maybe", True)
"""Annotation of a field whose key is missing in documents of earlier versions."""


class From(Generic[S]):
    """Source of a field: `read = From(Row)`, `records: int = read(lambda ...)`.

    Attributes:
        kind: type of the value that is passed to `of`.
    """

    def __init__(self, kind: type[S]) -> None:
        self.kind = kind

    def __call__(self, get: Callable[[S], T]) -> T:
        """Read the field with `get` from the value that is passed to `of`."""
        return cast(T, _Read(get))


@dataclass(frozen=True, slots=True)
class _Read:
    get: Callable[[Any], Any]


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Document:
    """An object in a JSON document; with a `SCHEMA`, the document itself.

    Frozen like a dataclass, but without generated code, which for a hundred classes would delay
    each command by 50 ms.
    """

    SCHEMA: ClassVar[str] = ""
    _names: ClassVar[Mapping[str, None]] = {}
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Collect the fields of the base classes, then its own."""
        own = dict.fromkeys(name for name in cls.__annotations__ if name != "SCHEMA")
        cls._names = {**cls._names, **own}
        found = {name: getattr(cls, name) for name in cls._names if hasattr(cls, name)}
        cls._defaults = {n: each for n, each in found.items() if not isinstance(each, _Read)}

    def __init__(self, **values: Any) -> None:
        """Set fields by name; fields with a default are optional."""
        if values.keys() != self._names.keys():
            values = {**self._defaults, **values}
        if values.keys() != self._names.keys():
            wrong = ", ".join(sorted(values.keys() ^ self._names.keys()))
            raise TypeError(f"{type(self).__name__}: missing or unknown fields: {wrong}")
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: object) -> None:
        """Reject assignments: documents are frozen."""
        raise AttributeError(f"{type(self).__name__} is frozen: {name}")

    @classmethod
    def of(cls, source: Any, **given: Any) -> Self:
        """Build the document from a value; `given` are fields that are not read from it."""
        if given:
            reads = {name: get(source) for name, get in _reads(cast(Any, cls)) if name not in given}
            return cls(**given, **reads)
        made = object.__new__(cls)
        # A document can have ten thousand partitions.
        made.__dict__.update([(name, get(source)) for name, get in _reads(cast(Any, cls))])
        return made

    @classmethod
    def each(cls, sources: Iterable[Any]) -> tuple[Self, ...]:
        """Build a document from each value."""
        return tuple(map(cls.of, sources))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""
        return cast(dict[str, Any], as_json(self))


@cache
def _reads(kind: type[Document]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    hints = get_type_hints(kind)
    return tuple((name, _getter(kind, name, hints[name])) for name in kind._names)


def _getter(kind: type[Document], name: str, hint: Any) -> Callable[[Any], Any]:
    default = getattr(kind, name, _Read(attrgetter(name)))
    if not isinstance(default, _Read):
        return lambda _source: default
    inner = next((each for each in (hint, *get_args(hint)) if _is_document(each)), None)
    if inner is None or hasattr(kind, name):
        return default.get
    return lambda source: _made(inner, default.get(source))


def _is_document(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Document)


def _made(kind: type[Document], value: Any) -> Any:
    if value is None:
        return None
    return kind.each(value) if isinstance(value, tuple | list) else kind.of(value)


def rounded(seconds: float | None, digits: int = 3) -> float | None:
    """Round to milliseconds; None stays None."""
    return None if seconds is None else round(seconds, digits)


_PLAIN = frozenset({str, int, float, bool, type(None)})


def as_json(value: Any) -> Any:
    """Convert documents, dataclasses, enums, times and containers to JSON values."""
    kind = type(value)
    if kind in _PLAIN:
        return value
    keys = _KEYS.get(kind)
    if keys is None and (is_dataclass(kind) or issubclass(kind, Document)):
        keys = _KEYS[kind] = _keys(kind)
    if keys is not None:
        made = {}
        for key, name, optional in keys:
            each = getattr(value, name)
            if each is not None or not optional:
                made[key] = each if type(each) in _PLAIN else as_json(each)
        return made
    if isinstance(value, Mapping):
        return {str(key): as_json(each) for key, each in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    if isinstance(value, str | int | float):
        return value
    return [each if type(each) in _PLAIN else as_json(each) for each in value]


def keys_of(kind: type) -> Iterator[tuple[str, str, Any]]:
    """Yield each key of a document's object with its field and type."""
    hints = get_type_hints(kind, include_extras=True)
    if issubclass(kind, Document):
        names: Iterable[str] = kind._names
    elif is_typeddict(kind):
        names = hints
    else:
        names = [each.name for each in fields(cast(Any, kind))]
    for name in names:
        extras = get_args(hints[name])[1:]
        stated: dict[str, Any] = dict(each for each in extras if isinstance(each, tuple))
        if "hidden" not in stated:
            yield stated.get("key", name.rstrip("_")), name, hints[name]


_Keys = tuple[tuple[str, str, bool], ...]
_KEYS: dict[type, _Keys] = {}
"""By type of document, for each field: its key, its name, and whether it is optional."""


def _keys(kind: type) -> _Keys:
    head = (("schema", "SCHEMA", False),) if getattr(kind, "SCHEMA", "") else ()
    keys = ((key, name, OPTIONAL in get_args(hint)) for key, name, hint in keys_of(kind))
    return (*head, *keys)
