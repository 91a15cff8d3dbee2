"""What a story plays on: a lab of its own, a narrator, and drctl as an engineer would call it."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drctl.lab.lab import Lab
from drctl.model.errors import Unknown

GAP_DEADLINE_S = 300


@dataclass(frozen=True, slots=True)
class Ending:
    """How a story ended.

    Attributes:
        true: whether drctl's answer was the truth, record by record.
        summary: in a sentence or two.
        page: the HTML page of the answer.
    """

    true: bool
    summary: str
    page: Path


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a story plays.

    Attributes:
        folder: for the configuration and results.
        tell: says what happens, a line each.
    """

    lab: Lab
    folder: Path
    tell: Callable[[str], None]

    @property
    def config(self) -> Path:
        """The lab's drctl.yaml."""
        return self.folder / "drctl.yaml"

    def gap(self, out: Path) -> dict[str, Any]:
        """Run `drctl gap` as a process of its own, its table on this terminal.

        Raises:
            Unknown: it ended otherwise than with an answer.
        """
        command = [sys.executable, "-m", "drctl", "--config", str(self.config)]
        command += ["gap", "--out", str(out)]
        done = subprocess.run(command, timeout=GAP_DEADLINE_S, check=False)
        document = out / "gap.json"
        if done.returncode not in (0, 1, 5) or not document.is_file():
            raise Unknown(f"drctl gap ended with exit code {done.returncode} and no answer")
        answer: dict[str, Any] = json.loads(document.read_text(encoding="utf-8"))
        return {**answer, "exit_code": done.returncode}
