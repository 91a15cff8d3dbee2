"""Validation errors of drctl.yaml and of runbooks, with place and plain message."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

from drctl.config.document import Document, Node, Scalar
from drctl.config.document import Mapping as MappingNode
from drctl.config.problems import Mark, Path, Problem, did_you_mean, escaped, one_of, quoted
from drctl.config.secret import hide_user_info, names_secret

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
    "finite_number": "must be a finite number",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
    **dict.fromkeys(
        ("mapping_type", "dict_type", "model_type", "model_attributes_type"),
        "must consist of `key: value` lines",
    ),
}
_MOST_LISTED = 30

Known = Callable[[Path], Sequence[str]]
Place = Callable[[Path], Path]
Hidden = Callable[[Path, Scalar], bool]


def _names_secret(path: Path, _node: Scalar) -> bool:
    return any(names_secret(str(part)) for part in path)


def problems_of(
    error: ValidationError,
    document: Document,
    known: Known,
    patterns: Mapping[str, str],
    place: Place = lambda path: path,
    hidden: Hidden = _names_secret,
) -> Iterator[Problem]:
    """The problems in a validation error.

    Args:
        known: the allowed keys at the level of a path's last key.
        patterns: by a key in a path, the form of texts under that key; "" for all other keys.
        place: converts a path of the schema to a path in the file.
        hidden: whether a value must not be shown.
    """
    for detail in error.errors(include_url=False, include_input=False):
        loc = tuple(part for part in detail["loc"] if part != "[key]")
        path, kind = place(loc), detail["type"]
        entry = document.entry(path)
        if kind.startswith("union_tag"):
            yield _kind(document, (*path, "kind"), detail, hidden)
        elif kind == "extra_forbidden":
            yield at_key(document, path, unknown(str(loc[-1]), known(loc)))
        elif kind == "missing":
            yield at_key(document, path, "has no value" if entry else "is required")
        elif kind == "too_short" and entry and not _is_empty(entry.node):
            continue  # only invalid parts, and each has its own error
        else:
            text = _message(detail, loc, patterns, entry.node if entry else None)
            if detail["loc"][-1:] == ("[key]",):
                yield at_key(document, path, text)
            else:
                yield at_value(document, path, text, hidden)


def at_key(document: Document, path: Path, text: str) -> Problem:
    """A problem with a key, or with a missing key."""
    entry = document.entry(path)
    above = path
    while entry is None and above:
        above = above[:-1]
        entry = document.entry(above)
    return Problem(entry.mark if entry else Mark(1, 1), path, text)


def at_value(document: Document, path: Path, text: str, hidden: Hidden = _names_secret) -> Problem:
    """A problem with a value, which is shown unless it may be a secret."""
    while path and document.entry(path) is None:
        path = path[:-1]
    entry = document.entry(path)
    if entry is None:
        return Problem(Mark(1, 1), path, text)
    node = entry.node
    if not isinstance(node, Scalar):
        kind = "mapping" if isinstance(node, MappingNode) else "list"
        text += f" ({'an empty' if _is_empty(node) else 'a'} {kind})"
    elif node.value is None:
        return Problem(entry.mark, path, "has no value (write '' for an empty one)")
    elif not hidden(path, node):
        shown = hide_user_info(node.text)
        text += f" ({quoted(shown) if isinstance(node.value, str) else escaped(shown)})"
    return Problem(node.mark, path, text)


def unknown(word: str, known: Sequence[str]) -> str:
    """The message for an unknown key."""
    near = did_you_mean(word, known)
    allowed = f"allowed here: {', '.join(known) or 'nothing'}"
    return f"is unknown; {near} ({allowed})" if near else f"is unknown; {allowed}"


def none_of(word: str, known: Sequence[str], what: str) -> str:
    """The message for a value that is not in a long list of names."""
    hint = did_you_mean(word, known)
    if not hint and len(known) <= _MOST_LISTED:
        hint = f"allowed: {one_of(known)}"
    return f"is not a {what}{'; ' if hint else ''}{hint}"


def one_of_these(text: str, allowed: Sequence[str]) -> str:
    """The message for a value that is not one of the few allowed ones."""
    near = did_you_mean(text, allowed)
    return f"must be {one_of(allowed)}{'; ' if near else ''}{near}"


def _kind(document: Document, path: Path, detail: "ErrorDetails", hidden: Hidden) -> Problem:
    """The problem with the `kind` of a section."""
    entry = document.entry(path)
    node = entry.node if entry else None
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return at_key(document, path, "has no value" if entry else "is required")
    allowed = re.findall(r"'([^']*)'", str(detail.get("ctx", {}).get("expected_tags", "")))
    return at_value(document, path, one_of_these(_text(node), allowed), hidden)


def _message(
    detail: "ErrorDetails", loc: Path, patterns: Mapping[str, str], node: Node | None
) -> str:
    context = detail.get("ctx", {})
    if detail["type"] == "literal_error":
        return one_of_these(_text(node), re.findall(r"'([^']*)'", str(context["expected"])))
    if detail["type"] == "value_error":
        return str(context["error"])
    if detail["type"] == "greater_than_equal":
        return f"must be {context['ge']:g} or more"
    if detail["type"] == "greater_than":
        return f"must be more than {context['gt']:g}"
    if detail["type"] == "string_type" and node is not None and not isinstance(node, Scalar):
        return "must be text"
    if detail["type"] == "string_pattern_mismatch":
        return next((patterns[str(part)] for part in loc if str(part) in patterns), patterns[""])
    return _WORDS.get(detail["type"], detail["msg"])


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _is_empty(node: Node) -> bool:
    """Whether it holds nothing, or only keys without values."""
    if isinstance(node, MappingNode):
        inside = (entry.node for entry in node.entries.values())
        return all(isinstance(each, Scalar) and each.value is None for each in inside)
    return not getattr(node, "items", ())
