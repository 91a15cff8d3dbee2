"""What `spark-submit` gets to run: a zip of the modules that the job imports, and a main file."""

import ast
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import drctl

JOB = "drctl.systems.spark.submit_job"
_ROOT = Path(drctl.__file__).parent.parent
_THEN = (1980, 1, 1, 0, 0, 0)

# What older versions of Python can read, too: it is the first thing that they see.
_MAIN = """\
import sys

if sys.version_info < (3, 11):
    sys.exit("Error: drctl needs Python 3.11 on Spark's driver, not " + sys.version.split()[0])

from {job} import main

main(sys.argv[1:])
"""


def write_job(folder: Path) -> tuple[Path, Path]:
    """Make the main file and the zip; the same bytes for the same drctl."""
    main, packed = folder / "drctl_gap.py", folder / "drctl.zip"
    main.write_text(_MAIN.format(job=JOB), encoding="utf-8")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for module in sorted(needed_modules(JOB)):
            path = _file(module)
            assert path is not None
            entry = zipfile.ZipInfo(str(path.relative_to(_ROOT)), _THEN)
            file.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return main, packed


@cache
def needed_modules(module: str) -> frozenset[str]:
    """Modules of drctl that this one needs: itself, its packages, and theirs."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found or _file(name) is None:
            continue
        found.add(name)
        waiting += [name.rpartition(".")[0], *imported(name)]
    return frozenset(found)


def imported(module: str) -> Iterator[str]:
    """All that the source of a module imports, of drctl or not; what may be a module or a name."""
    path = _file(module)
    assert path is not None
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _file(module: str) -> Path | None:
    """The source of a module of drctl; None for any other name."""
    place = _ROOT / module.replace(".", "/")
    if module.partition(".")[0] != "drctl":
        return None
    candidates = (place.with_name(place.name + ".py"), place / "__init__.py")
    return next((path for path in candidates if path.is_file()), None)
