"""drctl.yaml from disk: found, parsed, checked; all of its errors at once."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from drctl.config import checks
from drctl.config.configuration import Config
from drctl.config.document import parse
from drctl.config.interpretation import problem, values
from drctl.config.problems import Mark, Problem, config_error, located
from drctl.config.schema import ConfigFile
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
    found.extend(checks.problems(document))
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
