"""`drctl connect` through its entry point, and what its documents say."""

import gc
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
        room: the first word of every command line.
    """

    config: Path
    room: str = "connect"

    def __call__(self, *words: str) -> Ran:
        """Run it to its end; most of a process of its own would be its imports."""
        # A process of its own would not find the connections of an earlier command that failed.
        gc.collect()
        stdout, stderr = io.StringIO(), io.StringIO()
        with chdir(self.config.parent), redirect_stdout(stdout), redirect_stderr(stderr):
            code = run(self.line(*words)[1:])
        return Ran(code, stdout.getvalue(), stderr.getvalue())

    def line(self, *words: str) -> list[str]:
        """The command line of a process."""
        return [str(DRCTL), "--config", str(self.config), self.room, *words]

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The document on stdout, which fits its schema."""
        ran = self(*words, "--output", "json")
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())
