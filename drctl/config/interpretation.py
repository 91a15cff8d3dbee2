"""The tree of a file -> values for the schema; what the schema refuses -> problems with places."""

import re
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from drctl.config.document import Document, Mapping, Node, Scalar, Sequence
from drctl.config.endpoints import SECTIONS
from drctl.config.problems import (
    Mark,
    Path,
    Problem,
    did_you_mean,
    escaped,
    located,
    one_of,
    quoted,
)
from drctl.config.schema import keys_at
from drctl.config.secret import hide_user_info, names_secret
from drctl.config.setting import Setting, parts_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_ACCESS = "connect_access"
# Where a text may hold references; `*` is any key or number.
_SETTINGS = (
    ("clusters", "*", "bootstrap"),
    ("clusters", "*", "properties", "*"),
    ("links", "*", "replicator", "connect"),
    ("links", "*", "replicator", "connect", "*"),
    ("links", "*", "replicator", "reverse", "connect"),
    ("links", "*", "replicator", "reverse", "connect", "*"),
    ("links", "*", "replicator", _ACCESS, "*"),
    ("links", "*", "replicator", _ACCESS, "headers", "*"),
    ("links", "*", "replicator", "reverse", _ACCESS, "*"),
    ("links", "*", "replicator", "reverse", _ACCESS, "headers", "*"),
    ("links", "*", "endpoints", "*", "tsig", "secret"),
    ("links", "*", "endpoints", "*", "env", "*"),
    ("spark", "conf", "*"),
    ("journal", "key"),
)
# Of an endpoint: what may hold a secret that somebody wrote in the wrong place.
_NOT_SHOWN = ("tsig", "env", "argv", "observe")
_WORDS = {
    "string_type": "must be text: write it in quotes",
    "string_too_short": "must not be empty",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
    "mapping_type": "must hold `key: value` lines",
    "dict_type": "must hold `key: value` lines",
    "model_type": "must hold `key: value` lines",
    "model_attributes_type": "must hold `key: value` lines",
}
_NAME = "must be 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
_PRINCIPAL = "must be TYPE:NAME, such as User:orders-app"


def values(document: Document, file: str, directory: FilePath) -> Any:
    """What the schema takes: mappings, tuples, words, numbers, and settings where they may stand.

    Problems with references are added to the document's.
    """

    def value(node: Node, path: Path) -> Any:
        if isinstance(node, Mapping):
            entries = ((k, value(e.node, (*path, k))) for k, e in node.entries.items())
            # A section whose lines are all commented out is an absent one.
            return {k: v for k, v in entries if v is not None or _is_setting((*path, k))}
        if isinstance(node, Sequence):
            return tuple(value(item, (*path, i)) for i, item in enumerate(node.items))
        return setting(node, path) if _is_setting(path) else node.value

    def setting(node: Scalar, path: Path) -> Setting | None:
        if node.value is None:
            return None
        try:
            parts_of(node.text)
        except ValueError as error:
            document.problems.append(Problem(node.mark, path, str(error)))
            return Setting("${env:malformed}", "")  # no further complaint about it
        hidden = names_secret(str(path[-1]))
        if path[-2:] == (_ACCESS, "key"):
            hidden = "-----BEGIN" in node.text  # else the name of its file
        text = node.text
        if isinstance(node.value, bool) and not hidden:
            text = "true" if node.value else "false"
        return Setting(text, located(file, node.mark, path), directory, hidden)

    return value(document.root, ()) if document.root else None


def problem(document: Document, error: "ErrorDetails") -> Problem | None:
    """An error of the schema at the place of what is wrong; None for a mere echo of another."""
    path = _without_kind(error["loc"])
    if error["type"].startswith("union_tag"):
        return _kind_of_endpoint(document, (*path, "kind"), error)
    if path[-1:] == ("[key]",):
        return _at_key(document, path[:-1], _NAME if _is_pattern(error) else _said(error))
    if error["type"] == "extra_forbidden":
        return _at_key(document, path, _unknown_key(error["loc"]))
    if error["type"] == "missing":
        text = "has no value" if document.entry(path) else "is required"
        return _at_key(document, path, text)
    while path and document.entry(path) is None:
        path = path[:-1]
    entry = document.entry(path)
    if entry and isinstance(entry.node, Scalar) and entry.node.value is None:
        return Problem(entry.mark, path, "has no value (write '' for an empty one)")
    if entry is None:
        return Problem(Mark(1, 1), path, _said(error))
    if error["type"] == "too_short" and not _is_empty(entry.node):
        return None  # nothing valid is left in it, and each invalid part has its own error
    return Problem(entry.node.mark, path, _said(error, entry.node) + _shown(entry.node, path))


def _without_kind(path: Path) -> Path:
    """Without the endpoint's kind, which pydantic puts behind its number."""
    within = path[2:3] == ("endpoints",) and len(path) > 4
    return (*path[:4], *path[5:]) if within else path


def _kind_of_endpoint(document: Document, path: Path, error: "ErrorDetails") -> Problem:
    entry = document.entry(path)
    if entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
        return _at_key(document, path, "has no value" if entry else "is required")
    words = _one_of_known(tuple(SECTIONS), entry.node)
    return Problem(entry.node.mark, path, words + _shown(entry.node, path))


def _is_empty(node: Node) -> bool:
    """Whether nothing is in it, or only names without a value."""
    if isinstance(node, Mapping):
        inside = (entry.node for entry in node.entries.values())
        return all(isinstance(each, Scalar) and each.value is None for each in inside)
    return not getattr(node, "items", ())


def _shown(node: Node, path: Path) -> str:
    """The value in brackets, but for what may be a secret."""
    if isinstance(node, Mapping | Sequence):
        kind = "mapping" if isinstance(node, Mapping) else "list"
        return f" ({'an empty' if _is_empty(node) else 'a'} {kind})"
    text = hide_user_info(node.text)
    # What is no URL may still hold the password of one.
    unhidden = "connect" in path and "@" in node.text and text == node.text
    if _may_be_secret(path) or unhidden:
        return ""
    return f" ({quoted(text) if isinstance(node.value, str) else escaped(text)})"


def _is_setting(path: Path) -> bool:
    return any(_matches(path, pattern) for pattern in _SETTINGS)


def _matches(path: Path, pattern: tuple[str, ...]) -> bool:
    return len(path) == len(pattern) and all(
        want in ("*", part) for part, want in zip(path, pattern, strict=True)
    )


def _may_be_secret(path: Path) -> bool:
    names = [str(part) for part in path]
    free = any(name in ("properties", "conf") for name in names[:3])
    endpoint = path[2:3] == ("endpoints",) and path[4:5] and path[4] in _NOT_SHOWN
    key = path[:2] == ("journal", "key") or _ACCESS in path[:-1]
    return free or key or bool(endpoint) or any(names_secret(name) for name in names[2:])


def _at_key(document: Document, path: Path, text: str) -> Problem:
    entry = document.entry(path) or document.entry(path[:-1])
    return Problem(entry.mark if entry else Mark(1, 1), path, text)


def _is_pattern(error: "ErrorDetails") -> bool:
    return error["type"] == "string_pattern_mismatch"


def _unknown_key(path: Path) -> str:
    known = keys_at(path[:-1])
    near = did_you_mean(str(path[-1]), known)
    allowed = f"allowed here: {', '.join(known)}"
    return f"is not known; {near} ({allowed})" if near else f"is not known; {allowed}"


def _said(error: "ErrorDetails", node: Node | None = None) -> str:
    context = error.get("ctx", {})
    if error["type"] == "literal_error":
        return _one_of_known(re.findall(r"'([^']*)'", str(context["expected"])), node)
    if error["type"] == "value_error":
        return str(context["error"])
    if error["type"] == "greater_than_equal":
        return f"must be {context['ge']:g} or more"
    if _is_pattern(error):
        return _PRINCIPAL
    return _WORDS.get(error["type"], error["msg"])


def _one_of_known(allowed: "tuple[str, ...] | list[str]", node: Node | None) -> str:
    near = did_you_mean(node.text, allowed) if isinstance(node, Scalar) else ""
    return f"must be {one_of(allowed)}{'; ' if near else ''}{near}"
