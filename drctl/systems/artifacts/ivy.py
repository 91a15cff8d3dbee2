"""Fetching a set with the Ivy that PySpark carries: Java and a Maven repository are enough."""

import importlib.util
import re
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

from drctl.model.errors import Unreachable
from drctl.systems.artifacts.java import find_java
from drctl.systems.artifacts.sets import ArtifactSet

# No repository's address stands here: the resolver's own default, or the site's settings, decide.
SETTINGS = """<ivysettings>
  <settings defaultResolver="maven"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="maven" m2compatible="true" usepoms="true" timeoutConstraint="patience"/>
  </resolvers>
</ivysettings>
"""
DEADLINE_S = 900
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"
_FETCHED = re.compile(r"\[SUCCESSFUL \] [^#]+#([^;]+);([^!]+)!\S+\.(?:jar|bundle)")
_FAILED = re.compile(r"(?:not found|unresolved|FAILED|UnknownHost|refused|timed out)", re.I)


class NotFetched(Unreachable):
    """No repository gave the artifacts."""


def fetch(
    wanted: ArtifactSet,
    into: Path,
    ivy_home: Path,
    ivy_settings: Path | None,
    progress: Callable[[str], None],
) -> None:
    """Put the jars of a set into a folder.

    Raises:
        JavaMissing: Ivy needs Java.
        NotFetched: no repository answered, or it lacks something.
    """
    with tempfile.TemporaryDirectory(prefix="drctl-ivy-") as scratch:
        module, settings = Path(scratch, "ivy.xml"), Path(scratch, "settings.xml")
        module.write_text(_module_xml(wanted), encoding="utf-8")
        settings.write_text(SETTINGS, encoding="utf-8")
        command = [
            *(find_java(), "-Xmx512m", "-jar", _ivy_jar()),
            *("-settings", ivy_settings or settings, "-cache", ivy_home, "-ivy", module),
            *("-confs", "default", "-retrieve", into / _PATTERN),
        ]
        _run([str(word) for word in command], wanted, progress)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # finds without importing
    for folder in spec.submodule_search_locations or () if spec else ():
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    raise NotFetched("PySpark carries no ivy-*.jar here", "Install drctl again: pip install drctl")


def _module_xml(wanted: ArtifactSet) -> str:
    lines = (
        f"<dependency org={quoteattr(m.organisation)} name={quoteattr(m.name)} "
        f'rev={quoteattr(m.revision)} transitive="{str(wanted.transitive).lower()}" '
        'conf="default->default"/>'
        for m in wanted.modules
    )
    return (
        f'<ivy-module version="2.0"><info organisation="drctl" module={quoteattr(wanted.name)}/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


def _run(command: list[str], wanted: ArtifactSet, progress: Callable[[str], None]) -> None:
    said: list[str] = []
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as ivy:
        watchdog = threading.Timer(DEADLINE_S, ivy.kill)
        watchdog.start()
        try:
            for line in _reported(ivy.stdout or (), progress):
                said.append(line)
        except BaseException:
            ivy.kill()
            raise
        finally:
            watchdog.cancel()
    if ivy.returncode != 0:
        raise _not_fetched(wanted, ivy.returncode, said)


def _reported(
    lines: Iterator[str] | tuple[str, ...], progress: Callable[[str], None]
) -> Iterator[str]:
    for line in lines:
        if found := _FETCHED.search(line):
            progress(f"fetched {found.group(1)} {found.group(2)}")
        yield line.strip()


def _not_fetched(wanted: ArtifactSet, code: int, said: list[str]) -> NotFetched:
    first = wanted.modules[0]
    reason = next((line for line in said if _FAILED.search(line)), f"Ivy ended with {code}")
    return NotFetched(
        f"the {wanted.name} jars ({first.organisation}:{first.name}:{first.revision} and others) "
        f"are not cached and could not be fetched: {reason[:300]}",
        "Check the network; behind a proxy, pass --ivy-settings FILE (or DRCTL_IVY_SETTINGS) "
        "that names your site's Maven repository"
        + (
            "; or list the four jars as spark.jars in drctl.yaml." if not wanted.transitive else "."
        ),
    )
