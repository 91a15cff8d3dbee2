"""What the schemas refuse -> problems with the places of what is wrong, in words for a person."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pydantic import ValidationError

from drctl.config.document import Document, Mapping, Scalar, Sequence
from drctl.config.problems import (
    Mark,
    Path,
    Problem,
    did_you_mean,
    escaped,
    one_of,
    quoted,
)
from drctl.config.secret import names_secret

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_WORDS = {
    "string_type": "must be text: write it in quotes",
    "string_too_short": "must not be empty",
    "string_too_long": "must not be longer than 64 characters",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
    "mapping_type": "must hold `key: value` lines",
    "dict_type": "must hold `key: value` lines",
    "model_type": "must hold `key: value` lines",
    "model_attributes_type": "must hold `key: value` lines",
}
_PATTERNS = {
    "parameters": "must be lower-case letters, digits and '_', the first a letter",
    "principals": "must be TYPE:NAME, such as User:orders-app",
}
_MOST_TOLD = 30
_NAME = "must be lower-case words, digits too, with '-' between"

Place = Callable[[Path], Path]
Known = Callable[[Path], tuple[str, ...]]


def problems_of(
    error: ValidationError, document: Document, known: Known, place: Place = lambda path: path
) -> Iterator[Problem]:
    """Each thing that a schema refuses.

    Args:
        known: the keys that may stand beside the last of a path.
        place: where in the file that is which the schema calls so.
    """
    for detail in error.errors(include_url=False, include_input=False):
        loc = tuple(part for part in detail["loc"] if part != "[key]")
        path = place(loc)
        if detail["type"] == "extra_forbidden":
            yield at_key(document, path, unknown(str(loc[-1]), known(loc)))
        elif detail["type"] == "missing":
            text = "has no value" if document.entry(path) else "is required"
            yield at_key(document, path, text)
        elif detail["type"] == "too_short" and _filled(document, path):
            continue  # nothing valid is left in it, and each invalid part has its own error
        elif detail["loc"][-1:] == ("[key]",):
            yield at_key(document, path, _said(detail, loc))
        else:
            yield at_value(document, path, _said(detail, loc, document, path))


def at_key(document: Document, path: Path, text: str) -> Problem:
    """Something is wrong with a key, or with its absence."""
    entry = document.entry(path)
    above = path
    while entry is None and above:
        above = above[:-1]
        entry = document.entry(above)
    return Problem(entry.mark if entry else Mark(1, 1), path, text)


def at_value(document: Document, path: Path, text: str) -> Problem:
    """Something is wrong with a value; it is shown."""
    while path and document.entry(path) is None:
        path = path[:-1]
    entry = document.entry(path)
    if entry is None:
        return Problem(Mark(1, 1), path, text)
    node = entry.node
    if isinstance(node, Scalar) and node.value is None:
        return Problem(entry.mark, path, "has no value")
    secret = any(names_secret(str(part)) for part in path)
    return Problem(node.mark, path, text if secret else f"{text} ({_shown(node)})")


def unknown(word: str, known: tuple[str, ...]) -> str:
    """A word that is none of these."""
    near = did_you_mean(word, known)
    allowed = f"allowed here: {', '.join(known) or 'nothing'}"
    return f"is not known; {near} ({allowed})" if near else f"is not known; {allowed}"


def none_of(word: str, known: tuple[str, ...], what: str) -> str:
    """A value that is none of many."""
    told = did_you_mean(word, known)
    if not told and len(known) <= _MOST_TOLD:
        told = f"there are {one_of(known)}"
    return f"is no {what}{'; ' if told else ''}{told}"


def _said(
    detail: "ErrorDetails", loc: Path, document: Document | None = None, path: Path = ()
) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(context["expected"]))
        entry = document.entry(path) if document else None
        near = did_you_mean(_text(entry.node), allowed) if entry else ""
        return f"must be {one_of(allowed)}{'; ' if near else ''}{near}"
    if detail["type"] == "value_error":
        return str(context["error"])
    if detail["type"] == "greater_than_equal":
        return f"must be {context['ge']:g} or more"
    if detail["type"] == "string_pattern_mismatch":
        return next((_PATTERNS[str(part)] for part in loc if str(part) in _PATTERNS), _NAME)
    return _WORDS.get(detail["type"], detail["msg"])


def _filled(document: Document, path: Path) -> bool:
    entry = document.entry(path)
    return isinstance(entry.node, Sequence) and bool(entry.node.items) if entry else False


def _text(node: object) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _shown(node: object) -> str:
    if isinstance(node, Scalar):
        return quoted(node.text) if isinstance(node.value, str) else escaped(node.text)
    empty = not (node.entries if isinstance(node, Mapping) else getattr(node, "items", ()))
    kind = "mapping" if isinstance(node, Mapping) else "list"
    return f"{'an empty' if empty else 'a'} {kind}"
