"""The folder through which `drctl gap --submit` and its Spark application talk.

Client and driver may be two machines that share nothing but this folder. Each file is written once
as a whole, or replaced as a whole; a question is a file, and so is its answer.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

READY = "ready.json"
"""The session is open; says what the cluster calls the application."""
PROGRESS = "progress.json"
CRASHED = "crashed.json"
"""The job ended in a way that was not foreseen; says how."""
ALIVE = "alive.json"
"""A number that the client counts up: where it stands still, nobody waits for the job any more."""
STOP = "stop.json"
"""The client wants no more answers."""


def question(number: int) -> str:
    """Name of the file with the question of this number."""
    return f"question-{number}.json"


def answer(number: int) -> str:
    """Name of the file with its answer."""
    return f"answer-{number}.json"


class JobFolder:
    """One job's own folder; what executors write lies in it, too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, document: Any) -> None:
        """Write, or replace, a document."""
        hidden = self.path / f".{name}.{os.getpid()}.{threading.get_ident()}"
        with hidden.open("w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"), allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
            # The driver may be another user of the folder's group.
            os.fchmod(file.fileno(), self.path.stat().st_mode & 0o660)
        hidden.replace(self.path / name)

    def get(self, name: str) -> Any | None:
        """The document; None where there is none yet, or the folder is gone."""
        try:
            # Looking at the folder first: NFS clients remember for long that a file was missing.
            if name not in os.listdir(self.path):  # noqa: PTH208 (a name is all that is wanted)
                return None
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    @property
    def gone(self) -> bool:
        """Whether it was removed."""
        return not self.path.is_dir()
