"""`drctl --help` starts within 1.5 times of a trivial Typer program."""

import subprocess
import sys
import time
from pathlib import Path

from tests.cli.conftest import DRCTL

TRIVIAL = """
import typer

app = typer.Typer()


@app.command()
def hello(name: str = "you") -> None:
    \"\"\"Say hello.\"\"\"


@app.command()
def goodbye(name: str = "you") -> None:
    \"\"\"Say goodbye.\"\"\"


app()
"""


def seconds(program: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(program, capture_output=True, check=True)
    return time.perf_counter() - began


def test_help_is_as_quick_as_a_trivial_program(tmp_path: Path) -> None:
    trivial = tmp_path / "trivial.py"
    trivial.write_text(TRIVIAL)
    ours, theirs = [], []
    for _ in range(7):  # in turns: a busy machine slows both
        ours.append(seconds([str(DRCTL), "--help"]))
        theirs.append(seconds([sys.executable, str(trivial), "--help"]))
    assert min(ours) <= 1.5 * min(theirs)
