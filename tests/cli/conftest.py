"""The real command in its own process, as a script or an engineer runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from drctl.cli.main import run

DRCTL = Path(sys.executable).with_name("drctl")


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    code: int
    stdout: str
    stderr: str

    def document(self) -> dict[str, Any]:
        """Return the one JSON document on stdout."""
        found = json.loads(self.stdout)
        assert isinstance(found, dict)
        return found


class Run(Protocol):
    """Runs drctl in the test's folder, without drctl's environment variables."""

    def __call__(
        self, *arguments: str, environ: Mapping[str, str] = ..., stdin: str = ...
    ) -> Ran: ...


def clean_environment() -> dict[str, str]:
    ours = ("DRCTL_", "_DRCTL", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


@pytest.fixture
def called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Run the entry point in this process, for many command lines."""
    monkeypatch.chdir(tmp_path)
    for name in set(os.environ) - set(clean_environment()):
        monkeypatch.delenv(name)

    def run_here(*arguments: str, environ: Mapping[str, str] | None = None, stdin: str = "") -> Ran:
        assert not stdin
        with monkeypatch.context() as patch:
            for name, value in (environ or {}).items():
                patch.setenv(name, value)
            code = run(arguments)
        shown = capsys.readouterr()
        return Ran(code, shown.out, shown.err)

    return run_here


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
