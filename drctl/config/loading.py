"""drctl.yaml from disk: found, parsed, checked; all of its errors at once."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from drctl.config import crosschecks
from drctl.config.configuration import Config
from drctl.config.document import Document, Node, Scalar, Sequence, parse
from drctl.config.document import Mapping as MappingNode
from drctl.config.endpoints import SECTIONS
from drctl.config.problems import (
    Mark,
    Problem,
    config_error,
    did_you_mean,
    escaped,
    located,
    one_of,
    quoted,
)
from drctl.config.problems import Path as KeyPath
from drctl.config.schema import ConfigFile, keys_at
from drctl.config.secret import hide_user_info, names_secret
from drctl.config.setting import Setting, parts_of
from drctl.model.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DEFAULT = Path("drctl.yaml")
VARIABLE = "DRCTL_CONFIG"


def find(path: Path | None, environ: Mapping[str, str]) -> Path:
    """The file to load: the given one, else $DRCTL_CONFIG, else ./drctl.yaml.

    Raises:
        ConfigError: it does not exist.
    """
    said = environ.get(VARIABLE)
    chosen = path or (Path(said) if said else DEFAULT)
    if chosen.exists():
        return chosen
    if path or said:
        origin = "--config" if path else f"${VARIABLE}"
        raise ConfigError(f"{chosen}: no such file (named by {origin})")
    other = DEFAULT.with_suffix(".yml")
    rename = f"; {other} is not looked for: name it with --config" if other.exists() else ""
    raise ConfigError(
        f"there is no configuration: {DEFAULT} does not exist in this folder{rename}",
        f"write one with `drctl init`, or name one with --config or ${VARIABLE}",
    )


def load(path: Path) -> Config:
    """The configuration in the file.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong; names every place.
    """
    return read(_text(path), path)


def place_of(path: Path, settings: Iterable[tuple[str, ...]]) -> str:
    """`FILE:LINE:COLUMN: path.to.field` of the first setting that is written there; else empty."""
    try:
        document = parse(_text(path))
    except ConfigError:
        # It was there when it was loaded; what is to be said does not rest on it.
        return ""
    for setting in settings:
        entry = document.entry(setting)
        if entry is not None:
            return located(str(path), entry.mark, setting)
    return ""


def read(text: str, path: Path) -> Config:
    """The configuration in a text that stands, or will stand, in the file.

    Raises:
        ConfigError: something in it is wrong; names every place.
    """
    document = parse(text)
    if document.root is None and not document.problems:
        document.problems.append(Problem(Mark(1, 1), (), "is empty"))
    content = values(document, str(path), path.parent)
    found = list(document.problems)
    try:
        file = ConfigFile.model_validate(content) if document.root else None
    except ValidationError as error:
        file = None
        details = error.errors(include_url=False, include_input=False)
        found.extend(filter(None, (problem(document, detail) for detail in details)))
    found.extend(crosschecks.problems(document))
    if found or file is None:
        raise config_error(str(path), found)
    return Config(path, file)


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode().split("\n")
        mark = Mark(len(before), len(before[-1]) + 1)
        raise config_error(str(path), [Problem(mark, (), "is not UTF-8 text")]) from None


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
_PATTERN = "string_pattern_mismatch"
_NAME = "must be 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"
_PRINCIPAL = "must be TYPE:NAME, such as User:orders-app"


def values(document: Document, file: str, directory: Path) -> Any:
    """What the schema takes: mappings, tuples, words, numbers, and settings where they may stand.

    Problems with references are added to the document's.
    """

    def value(node: Node, path: KeyPath) -> Any:
        if isinstance(node, MappingNode):
            entries = ((k, value(e.node, (*path, k))) for k, e in node.entries.items())
            # A section whose lines are all commented out is an absent one.
            return {k: v for k, v in entries if v is not None or _is_setting((*path, k))}
        if isinstance(node, Sequence):
            return tuple(value(item, (*path, i)) for i, item in enumerate(node.items))
        return setting(node, path) if _is_setting(path) else node.value

    def setting(node: Scalar, path: KeyPath) -> Setting | None:
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
    path = error["loc"]
    if path[2:3] == ("endpoints",) and len(path) > 4:
        path = (*path[:4], *path[5:])  # pydantic puts the endpoint's kind behind its number
    if error["type"].startswith("union_tag"):
        return _kind_of_endpoint(document, (*path, "kind"))
    if path[-1:] == ("[key]",):
        return _at_key(document, path[:-1], _NAME if error["type"] == _PATTERN else _said(error))
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


def _kind_of_endpoint(document: Document, path: KeyPath) -> Problem:
    entry = document.entry(path)
    if entry is None or (isinstance(entry.node, Scalar) and entry.node.value is None):
        return _at_key(document, path, "has no value" if entry else "is required")
    words = _one_of_known(tuple(SECTIONS), entry.node)
    return Problem(entry.node.mark, path, words + _shown(entry.node, path))


def _is_empty(node: Node) -> bool:
    """Whether nothing is in it, or only names without a value."""
    if isinstance(node, MappingNode):
        inside = (entry.node for entry in node.entries.values())
        return all(isinstance(each, Scalar) and each.value is None for each in inside)
    return not getattr(node, "items", ())


def _shown(node: Node, path: KeyPath) -> str:
    """The value in brackets, but for what may be a secret."""
    if isinstance(node, MappingNode | Sequence):
        kind = "mapping" if isinstance(node, MappingNode) else "list"
        return f" ({'an empty' if _is_empty(node) else 'a'} {kind})"
    text = hide_user_info(node.text)
    # What is no URL may still hold the password of one.
    unhidden = "connect" in path and "@" in node.text and text == node.text
    if _may_be_secret(path) or unhidden:
        return ""
    return f" ({quoted(text) if isinstance(node.value, str) else escaped(text)})"


def _is_setting(path: KeyPath) -> bool:
    patterns = (pattern for pattern in _SETTINGS if len(pattern) == len(path))
    return any(
        all(want in ("*", part) for part, want in zip(path, pattern, strict=True))
        for pattern in patterns
    )


def _may_be_secret(path: KeyPath) -> bool:
    names = [str(part) for part in path]
    free = any(name in ("properties", "conf") for name in names[:3])
    endpoint = path[2:3] == ("endpoints",) and path[4:5] and path[4] in _NOT_SHOWN
    key = path[:2] == ("journal", "key") or _ACCESS in path[:-1]
    return free or key or bool(endpoint) or any(names_secret(name) for name in names[2:])


def _at_key(document: Document, path: KeyPath, text: str) -> Problem:
    entry = document.entry(path) or document.entry(path[:-1])
    return Problem(entry.mark if entry else Mark(1, 1), path, text)


def _unknown_key(path: KeyPath) -> str:
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
    if error["type"] == _PATTERN:
        return _PRINCIPAL
    return _WORDS.get(error["type"], error["msg"])


def _one_of_known(allowed: "tuple[str, ...] | list[str]", node: Node | None) -> str:
    near = did_you_mean(node.text, allowed) if isinstance(node, Scalar) else ""
    return f"must be {one_of(allowed)}{'; ' if near else ''}{near}"
