"""The real command in a process of its own, as a script or an engineer runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

DRCTL = Path(sys.executable).with_name("drctl")


@dataclass(frozen=True)
class Ran:
    """How a command line ended."""

    code: int
    stdout: str
    stderr: str

    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


class Run(Protocol):
    """Runs drctl in the test's own folder, with an environment that sets nothing of drctl."""

    def __call__(
        self, *arguments: str, environ: Mapping[str, str] = ..., stdin: str = ...
    ) -> Ran: ...


def clean_environment() -> dict[str, str]:
    ours = ("DRCTL_", "_DRCTL", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@pytest.fixture
def drctl(tmp_path: Path) -> Run:
    def run(*arguments: str, environ: Mapping[str, str] | None = None, stdin: str = "") -> Ran:
        done = subprocess.run(
            [DRCTL, *arguments],
            cwd=tmp_path,
            env={**clean_environment(), **(environ or {})},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run
