"""`python -m drctl.artifacts`: fetch all sets again and write their committed sums."""

import sys
import tempfile
from pathlib import Path

from drctl.artifacts.jars import SETS, fetch, sha256, sums_file


def write_sums() -> None:
    """Trusts what the repositories serve now: review the difference before committing it."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, wanted in SETS.items():
            folder = Path(scratch, name)
            fetch(wanted, folder, Path(scratch, "ivy"), None, _say)
            lines = [f"{sha256(jar)}  {jar.name}\n" for jar in sorted(folder.glob("*.jar"))]
            sums_file(name).write_text("".join(lines), encoding="ascii")
            _say(f"{name}: {len(lines)} jars")


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")


write_sums()
