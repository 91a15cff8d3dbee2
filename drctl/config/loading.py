"""Finds, parses and checks drctl.yaml, and reports all of its errors at once."""

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
from drctl.model.text import quote

DEFAULT = Path("drctl.yaml")
VARIABLE = "DRCTL_CONFIG"
_INIT = "drctl init PRIMARY:9092 SECONDARY:9092"


def find(path: Path | None, environ: Mapping[str, str]) -> Path:
    """Choose the file: --config, $DRCTL_CONFIG or ./drctl.yaml.

    Raises:
        ConfigError: it does not exist.
    """
    named = environ.get(VARIABLE)
    chosen = path or (Path(named) if named else DEFAULT)
    if chosen.exists():
        return chosen
    if path or named:
        origin = "--config" if path else f"${VARIABLE}"
        raise ConfigError(
            f"configuration not found: {chosen} (from {origin})",
            f"correct {origin}, or create the file: {_INIT} --output-file {quote(str(chosen))}",
        )
    other = DEFAULT.with_suffix(".yml")
    rename = f"; to use {other}, add --config {other}" if other.exists() else ""
    raise ConfigError(
        f"configuration not found: {DEFAULT.absolute()}{rename}",
        f"create it: {_INIT}; or name another file with --config FILE or ${VARIABLE}",
    )


def load(path: Path) -> Config:
    """Load the configuration in a file.

    Raises:
        ConfigError: it cannot be read or has problems; lists all of them.
    """
    return read(file_text(path), path)


def place_of(path: Path, settings: Iterable[tuple[str, ...]]) -> str:
    """`FILE:LINE:COLUMN: path.to.field` of the first of these settings in the file, or empty."""
    try:
        document = parse(file_text(path))
    except ConfigError:
        # The place only adds to a message.
        return ""
    for setting in settings:
        entry = document.entry(setting)
        if entry is not None:
            return located(str(path), entry.mark, setting)
    return ""


def read(text: str, path: Path) -> Config:
    """Parse the text of a configuration file.

    Raises:
        ConfigError: it has problems; lists all of them.
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
# Values that may contain references; `*` is any key or number.
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
    *(
        ("links", "*", "source_connectors", side, *rest)
        for side in ("from", "to")
        for rest in (("connect",), ("connect", "*"), (_ACCESS, "*"), (_ACCESS, "headers", "*"))
    ),
    ("links", "*", "endpoints", "*", "tsig", "secret"),
    ("links", "*", "endpoints", "*", "env", "*"),
    ("spark", "conf", "*"),
    ("journal", "key"),
)
# Keys of an endpoint that may contain a misplaced secret.
_NOT_SHOWN = ("tsig", "env", "argv", "observe")
_PATTERNS = {
    "": "must be 1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit",
    "principals": "must be TYPE:NAME, for example User:orders-app",
}


def values(document: Document, file: str, directory: Path) -> Any:
    """The content for the schema: mappings, tuples, texts, numbers and settings.

    Problems with references are added to the document.
    """

    def value(node: Node, path: KeyPath) -> Any:
        if isinstance(node, MappingNode):
            entries = ((k, value(e.node, (*path, k))) for k, e in node.entries.items())
            # A section with only comments counts as absent.
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
            return Setting("${env:malformed}", "")  # avoids a second error about it
        hidden = names_secret(str(path[-1]))
        if path[-2:] == (_ACCESS, "key"):
            hidden = "-----BEGIN" in node.text  # otherwise it is a file name
        text = node.text
        if isinstance(node.value, bool) and not hidden:
            text = "true" if node.value else "false"
        return Setting(text, located(file, node.mark, path), directory, hidden)

    return value(document.root, ()) if document.root else None


def _place(path: KeyPath) -> KeyPath:
    """The place in the file: pydantic adds an endpoint's kind after its number."""
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
    # A malformed URL may still contain a password.
    url = "connect" in path and "@" in node.text and hide_user_info(node.text) == node.text
    named = any(names_secret(name) for name in names[2:])
    return free or key or url or named or bool(endpoint)
