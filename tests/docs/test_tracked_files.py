"""No file of the project names a package registry or a path on someone's machine."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

# Put together here, so that this file does not name them either.
_REGISTRIES = (
    *("pypi" + ".org", "pythonhosted" + ".org", "maven" + ".org", "maven.apache" + ".org"),
    *("sonatype" + ".org", "npmjs" + ".org", "deb.debian" + ".org", "crates" + ".io"),
)
_PLACES = ("/wo" + "rk/", "/ro" + "ot/", "/tmp/" + "w/")
_NAMED = re.compile("|".join(re.escape(name) for name in _REGISTRIES), re.IGNORECASE)
_PLACED = re.compile(r"(?<![\w.$}*~-])(?:" + "|".join(map(re.escape, _PLACES)) + ")")


def files() -> tuple[Path, ...]:
    """Return what is or would be committed; without git, everything not hidden or generated."""
    if not (ROOT / ".git").exists():
        return tuple(path for path in ROOT.rglob("*") if path.is_file() and not _made(path))
    command = ["git", "-c", "safe.directory=*", "ls-files", "-coz", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = (ROOT / name for name in names.split("\0") if name)
    return tuple(path for path in found if path.is_file())


def _made(path: Path) -> bool:
    return any(part.startswith((".", "__pycache__")) for part in path.relative_to(ROOT).parts)


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in files():
        text = path.read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    return found


@pytest.mark.slow
def test_no_package_registry_is_named() -> None:
    assert lines_with(_NAMED) == []


def test_no_path_of_a_machine_is_named() -> None:
    assert lines_with(_PLACED) == []


def test_the_patterns_match_examples() -> None:
    assert _NAMED.search("https://repo1." + _REGISTRIES[2] + "/maven2")
    assert all(_PLACED.search(f'path = "{place}x"') for place in _PLACES)
    assert not _PLACED.search("${WORK}" + _PLACES[0])
    assert len(files()) > 100
