"""The runbooks that there are: those that ship with drctl, and the site's own beside them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from drctl import resources
from drctl.config.problems import did_you_mean, one_of, quoted
from drctl.model.errors import ConfigError, UsageError
from drctl.runbook.reading import Runbook, file_text, load, look_at

FOLDER = "runbooks"


@dataclass(frozen=True, slots=True)
class Listed:
    """One of them.

    Attributes:
        about: its first sentence; empty where the file is no runbook.
        own: whether it is the site's, and not drctl's.
        replaced: whether the site has one of the same name, which is run instead.
        sound: whether it can be read as a runbook; `drctl runbook lint` tells why not.
    """

    name: str
    path: Path
    about: str
    own: bool
    replaced: bool = False
    sound: bool = True


def listing(own: Path | None = None) -> tuple[Listed, ...]:
    """All of them by name, the site's first.

    Args:
        own: the site's folder.

    Raises:
        ConfigError: it is no folder.
    """
    ours = _paths(resources.shipped(FOLDER))
    theirs = _paths(own) if own else {}
    found = [_listed(path, own=True) for path in theirs.values()]
    found += [_listed(path, own=False, replaced=n in theirs) for n, path in ours.items()]
    return tuple(sorted(found, key=lambda each: (each.name, not each.own)))


def files(folder: Path) -> tuple[Path, ...]:
    """The runbooks in a folder.

    Raises:
        ConfigError: it is none.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder} is no folder", "set `runbooks` of drctl.yaml to one that is")
    return tuple(sorted(folder.glob("*.yaml")))


def find(name: str, own: Path | None = None) -> Runbook:
    """The runbook of this name; the site's where both have it.

    Raises:
        UsageError: there is none.
        ConfigError: something in it is wrong; or the site's folder is none.
    """
    known = {**_paths(resources.shipped(FOLDER)), **(_paths(own) if own else {})}
    if name not in known:
        near = did_you_mean(name, tuple(known)) or f"there are {one_of(tuple(sorted(known)))}"
        raise UsageError(f"there is no runbook {quoted(name)}", near)
    return load(known[name])


def _paths(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in files(folder)}


def _listed(path: Path, *, own: bool, replaced: bool = False) -> Listed:
    try:
        runbook, problems = look_at(file_text(path), path)
    except ConfigError:
        runbook, problems = None, []
    about = next(_sentences(runbook.file.about), "") if runbook else ""
    return Listed(path.stem, path, about, own, replaced, runbook is not None and not problems)


def _sentences(text: str) -> Iterator[str]:
    for sentence in " ".join(text.split()).split(". "):
        yield sentence.rstrip(".")
