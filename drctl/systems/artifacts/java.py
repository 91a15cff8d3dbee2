"""The Java runtime that drctl starts things with."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from drctl.model.errors import Refused

OLDEST = 17
INSTALL = (
    f"Install Java {OLDEST} or later (on Debian: sudo apt-get install default-jre-headless) "
    "or set JAVA_HOME to one."
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
        raise JavaMissing(f"{found} is Java {version}; {OLDEST} is the oldest that works", INSTALL)
    return found


def java_command() -> Path:
    """The same, of whatever version: nothing is started.

    Raises:
        JavaMissing: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        where = f"in JAVA_HOME ({home})" if home else "on the path"
        raise JavaMissing(f"there is no java command {where}", INSTALL)
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
        raise JavaMissing(f"{java} does not run: {error}", INSTALL) from error
    stated = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer)
    if stated is None:
        raise JavaMissing(f"{java} does not say which version it is", INSTALL)
    return int(stated.group(1))
