"""`resolve`: the jars of a named set, fetched once and checked each time."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from drctl.model.errors import ConfigError
from drctl.systems.artifacts.ivy import fetch
from drctl.systems.artifacts.sets import SETS, ArtifactSet, committed_sums, sums_file
from drctl.systems.artifacts.store import CorruptArtifact, Shelf, cache_dir, sha256
from drctl.systems.private import for_everybody


def resolve(
    name: str, *, progress: Callable[[str], None], ivy_settings: Path | None = None
) -> tuple[Path, ...]:
    """The jars of a set: from the cache, else from the Maven repositories of the site.

    Args:
        name: `spark-connector`, `kafka`, `connect`, `debezium-postgres` or `kafka-tools`.
        progress: told, line by line, what is being fetched.
        ivy_settings: an Ivy settings file; else `$DRCTL_IVY_SETTINGS`; else Ivy's own repository.

    Raises:
        NotFetched: nothing is cached and no repository gave the jars.
        CorruptArtifact: a jar is not the one whose sum is committed.
        JavaMissing: there is no Java to fetch with.
        ConfigError: the Ivy settings file does not exist.
    """
    wanted = SETS[name]
    shelf = _shelf(name)
    with _alone(shelf, progress):
        if shelf.missing():
            _fill(shelf, wanted, _settings(ivy_settings), progress)
        shelf.check()
    return shelf.paths


def _shelf(name: str) -> Shelf:
    version = hashlib.sha256(sums_file(name).read_bytes()).hexdigest()[:12]
    return Shelf(name, cache_dir() / "artifacts" / f"{name}-{version}", committed_sums(name))


def _settings(given: Path | None) -> Path | None:
    from_environment = os.environ.get("DRCTL_IVY_SETTINGS")
    path = given or (Path(from_environment) if from_environment else None)
    if path is not None and not path.is_file():
        raise ConfigError(
            f"the Ivy settings file {path} does not exist",
            "Correct --ivy-settings or DRCTL_IVY_SETTINGS.",
        )
    return path


@contextmanager
def _alone(shelf: Shelf, progress: Callable[[str], None]) -> Iterator[None]:
    """Keep two processes from fetching the same set at once; jars may be read by everybody."""
    with for_everybody(), ExitStack() as opened:
        shelf.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = opened.enter_context(shelf.folder.with_suffix(".lock").open("a"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"waiting for another drctl that fetches the {shelf.name} jars")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(
    shelf: Shelf, wanted: ArtifactSet, settings: Path | None, progress: Callable[[str], None]
) -> None:
    progress(f"fetching the {shelf.name} jars (once; kept in {shelf.folder})")
    ivy_home = cache_dir() / "ivy"
    with tempfile.TemporaryDirectory(prefix=f"{shelf.name}-", dir=shelf.folder.parent) as scratch:
        fetched = Shelf(shelf.name, Path(scratch, "jars"), shelf.sums)
        fetch(wanted, fetched.folder, ivy_home, settings, progress)
        try:
            fetched.check_bytes()
        except CorruptArtifact as error:
            _forget(fetched, ivy_home)
            raise CorruptArtifact(
                f"what was fetched is not what drctl was built for: {error.message}",
                "Retry: it was dropped from the cache. If it comes again, the repository (or a "
                "proxy between) serves other bytes; pass --ivy-settings with another one.",
            ) from error
        shelf.folder.mkdir(exist_ok=True)
        for jar in fetched.folder.iterdir():
            if not (shelf.folder / jar.name).exists():
                shutil.move(jar, shelf.folder / jar.name)


def _forget(fetched: Shelf, ivy_home: Path) -> None:
    """Drop wrong jars from Ivy's own cache, which would serve them again."""
    for jar in fetched.folder.glob("*.jar"):
        if sha256(jar) != fetched.sums.get(jar.name):
            for kept in ivy_home.rglob(jar.name):
                kept.unlink()
