"""Classes as a JVM keeps them ready (AppCDS, JEP 350), so that the next one starts in less time.

A JVM looks itself whether an archive fits its version and its jars; else it starts as without.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from drctl.model.errors import Stopped
from drctl.systems.artifacts.java import JavaMissing, java_command

_QUIET = "-Xlog:cds*=off"
"""A JVM complains of an archive that does not fit on what a program prints."""
_AGAIN = "Try again; nothing needs them."
_TRIAL_S = 120


def class_archive(folder: Path) -> Path:
    """Where the archive for the jars of a folder is kept; of this machine's Java.

    Raises:
        JavaMissing: there is none.
    """
    java = java_command().resolve()
    release = java.parent.parent / "release"
    build = release.read_bytes() if release.is_file() else b""
    return folder / f"classes-{hashlib.sha256(bytes(java) + build).hexdigest()[:12]}.jsa"


def started_with(archive: Path) -> tuple[str, ...]:
    """Options of a JVM that takes its classes from there; none where there is no archive."""
    return (f"-XX:SharedArchiveFile={archive}", _QUIET) if archive.is_file() else ()


def classes_for(jars: Path) -> tuple[str, ...]:
    """Options of a JVM with the jars of a folder; none also where there is no Java to start."""
    try:
        return started_with(class_archive(jars))
    except JavaMissing:
        # Whoever starts one says so, in its own words.
        return ()


def recorded_into(file: Path) -> tuple[str, ...]:
    """Options of a JVM that writes an archive of what it has loaded when it ends by itself."""
    return (f"-XX:ArchiveClassesAtExit={file}", _QUIET)


def keep(recorded: Path, archive: Path, trial: Callable[[Sequence[str]], Sequence[str]]) -> None:
    """Put what a JVM has written to where others look for it.

    Half an archive ends a JVM with a fault of its memory, so all of it is checked first.

    Args:
        trial: a command that starts a JVM with these options, and the jars in question, and ends.

    Raises:
        Stopped: nothing was written, or a JVM does not start with it.
    """
    if not recorded.is_file():
        raise Stopped("no classes were recorded", _AGAIN)
    try:
        command = trial((*started_with(recorded), "-Xshare:on", "-XX:+VerifySharedSpaces"))
        subprocess.run(
            command, cwd=recorded.parent, capture_output=True, timeout=_TRIAL_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Stopped(f"the recorded classes cannot be used: {error}", _AGAIN) from error
    whole = archive.with_name(f"{archive.name}.{os.getpid()}")
    with recorded.open("rb") as given, whole.open("wb") as kept:
        shutil.copyfileobj(given, kept)
        kept.flush()
        os.fsync(kept.fileno())
    whole.replace(archive)
