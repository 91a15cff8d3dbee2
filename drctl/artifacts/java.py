"""Finds the Java runtime, and manages archives of class data (CDS) for faster starts."""

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
    """Java is missing, or too old."""


def find_java() -> Path:
    """The `java` command in JAVA_HOME, or in the PATH.

    Raises:
        JavaMissing: there is none, or it is older than 17.
    """
    found = java_command()
    version = java_version(found)
    if version < OLDEST:
        raise JavaMissing(f"{found} is Java {version}; Java {OLDEST} or later is needed", INSTALL)
    return found


def java_command() -> Path:
    """The `java` command of any version, without starting it.

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
        JavaMissing: the command does not print its version.
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
"""Turns off the warning that a JVM prints for an archive that does not match."""
_AGAIN = "try again; without recorded classes, Java only starts more slowly"
_TRIAL_S = 120


def class_archive(folder: Path) -> Path:
    """The path of the archive for the jars of a folder and this host's Java.

    Raises:
        JavaMissing: there is none.
    """
    java = java_command().resolve()
    release = java.parent.parent / "release"
    build = release.read_bytes() if release.is_file() else b""
    return folder / f"classes-{hashlib.sha256(bytes(java) + build).hexdigest()[:12]}.jsa"


def started_with(archive: Path) -> tuple[str, ...]:
    """JVM options to use the archive; empty if there is none."""
    return (f"-XX:SharedArchiveFile={archive}", _QUIET) if archive.is_file() else ()


def classes_for(jars: Path) -> tuple[str, ...]:
    """JVM options for the jars of a folder; empty without an archive or without Java."""
    try:
        return started_with(class_archive(jars))
    except JavaMissing:
        # The code that starts a JVM reports it.
        return ()


def recorded_into(file: Path) -> tuple[str, ...]:
    """JVM options to write an archive of the loaded classes at a regular exit."""
    return (f"-XX:ArchiveClassesAtExit={file}", _QUIET)


def keep(recorded: Path, archive: Path, trial: Callable[[Sequence[str]], Sequence[str]]) -> None:
    """Install an archive that a JVM has written.

    An incomplete archive crashes a JVM, so it is verified first.

    Args:
        trial: returns a command that starts a JVM with given options and the jars, and exits.

    Raises:
        Stopped: no archive was written, or a JVM does not start with it.
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
