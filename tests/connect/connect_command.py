"""`drctl connect` through its entry point, and its documents."""

import io
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drctl.cli.main import run
from tests.cli.conftest import DRCTL, Ran
from tests.cli.documents import check


@dataclass(frozen=True)
class ConnectCommand:
    """Runs with one drctl.yaml; state_dir is in its folder.

    Attributes:
        room: first word of every command line.
    """

    config: Path
    room: str = "connect"

    def __call__(self, *words: str) -> Ran:
        """Run it to completion in this process: imports would take most of the time of another."""
        stdout, stderr = io.StringIO(), io.StringIO()
        with chdir(self.config.parent), redirect_stdout(stdout), redirect_stderr(stderr):
            code = run(self.line(*words)[1:])
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    def line(self, *words: str) -> list[str]:
        """Return the command line for a separate process."""
        return [str(DRCTL), "--config", str(self.config), self.room, *words]

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """Return the document on stdout, validated against its schema."""
        ran = self(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())
