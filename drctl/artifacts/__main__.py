"""`python -m drctl.artifacts`: fetch all sets again and write their committed sums."""

import sys
import tempfile
from pathlib import Path

from drctl.artifacts.jars import SETS, fetch, sums_file, write_sums


def fetch_all() -> None:
    """Trusts what the repositories serve now: review the difference before committing it."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, wanted in SETS.items():
            folder = Path(scratch, name)
            fetch(wanted, folder, Path(scratch, "ivy"), None, _say)
            _say(f"{name}: {write_sums(folder, sums_file(name))} jars")


def _say(message: str) -> None:
    sys.stderr.write(f"{message}\n")


fetch_all()
