"""drctl.yaml from disk: found, parsed, checked; all of its errors at once."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drctl.config import crosschecks
from drctl.config.configuration import Config
from drctl.config.document import Document, Node, Scalar, Sequence, file_text, parse
from drctl.config.document import Mapping as MappingNode
from drctl.config.problems import Mark, Problem, config_error, located
from drctl.config.problems import Path as KeyPath
from drctl.config.schema import ConfigFile, keys_at
from drctl.config.schema_errors import problems_of
from drctl.config.secret import hide_user_info, names_secret
from drctl.config.setting import Setting, parts_of
from drctl.model.errors import ConfigError

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
    return read(file_text(path), path)


def place_of(path: Path, settings: Iterable[tuple[str, ...]]) -> str:
    """`FILE:LINE:COLUMN: path.to.field` of the first setting that is written there; else empty."""
    try:
        document = parse(file_text(path))
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
        known = lambda path: keys_at(path[:-1])  # noqa: E731
        found += problems_of(error, document, known, _PATTERNS, _place, _may_be_secret)
    found.extend(crosschecks.problems(document))
    if found or file is None:
        raise config_error(str(path), found)
    return Config(path, file)


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
_PATTERNS = {
    "": "must be 1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit",
    "principals": "must be TYPE:NAME, such as User:orders-app",
}


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


def _place(path: KeyPath) -> KeyPath:
    """Where in the file: pydantic puts an endpoint's kind behind its number."""
    inside = path[2:3] == ("endpoints",) and len(path) > 4
    return (*path[:4], *path[5:]) if inside else path


def _is_setting(path: KeyPath) -> bool:
    patterns = (pattern for pattern in _SETTINGS if len(pattern) == len(path))
    return any(
        all(want in ("*", part) for part, want in zip(path, pattern, strict=True))
        for pattern in patterns
    )


def _may_be_secret(path: KeyPath, node: Scalar) -> bool:
    names = [str(part) for part in path]
    free = any(name in ("properties", "conf") for name in names[:3])
    endpoint = path[2:3] == ("endpoints",) and path[4:5] and path[4] in _NOT_SHOWN
    key = path[:2] == ("journal", "key") or _ACCESS in path[:-1]
    # What is no URL may still hold the password of one.
    url = "connect" in path and "@" in node.text and hide_user_info(node.text) == node.text
    named = any(names_secret(name) for name in names[2:])
    return free or key or url or named or bool(endpoint)
