"""The Java runtime that drctl starts things with."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from drctl.model.errors import Refused, Stopped

OLDEST = 17
INSTALL = (
    f"install Java {OLDEST} or later (on Debian: sudo apt-get install default-jre-headless) "
    "or set JAVA_HOME"
)


class JavaMissing(Refused):
    """There is no Java here, or one that is too old."""


def find_java() -> Path:
    """The `java` command of JAVA_HOME, else of the path.

    Raises:
        JavaMissing: there is none, or it is older than 17.
    """
    found = java_command()
    version = java_version(found)
    if version < OLDEST:
        raise JavaMissing(f"{found} is Java {version}; Java {OLDEST} or later is needed", INSTALL)
    return found


def java_command() -> Path:
    """The same, of whatever version: nothing is started.

    Raises:
        JavaMissing: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise JavaMissing(f"no java command {where}", INSTALL)
    return Path(found)


def java_version(java: Path) -> int:
    """The feature release: 17 of 17.0.15, 8 of 1.8.0.

    Raises:
        JavaMissing: the command does not say what it is.
    """
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"cannot run {java}: {error}", INSTALL) from error
    stated = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer)
    if stated is None:
        raise JavaMissing(f"cannot determine the version of {java}", INSTALL)
    return int(stated.group(1))


_QUIET = "-Xlog:cds*=off"
"""A JVM complains of an archive that does not fit on what a program prints."""
_AGAIN = "try again; they are optional"
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
