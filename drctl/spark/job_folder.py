"""The shared directory through which `drctl gap --submit` and its Spark application communicate.

Client and driver may run on different hosts that share only this directory. Files are written or
replaced atomically; each request and each response is a file.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

READY = "ready.json"
"""The session is open; contains the application id."""
PROGRESS = "progress.json"
CRASHED = "crashed.json"
"""The job ended unexpectedly; contains the cause."""
ALIVE = "alive.json"
"""Heartbeat of the client, an increasing number."""
STOP = "stop.json"
"""The client needs no more answers."""


def question(number: int) -> str:
    """Return the file name of a request."""
    return f"question-{number}.json"


def answer(number: int) -> str:
    """Return the file name of its response."""
    return f"answer-{number}.json"


class JobFolder:
    """The directory of one job; executors write their results to it, too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, document: Any) -> None:
        """Write or replace a document."""
        hidden = self.path / f".{name}.{os.getpid()}.{threading.get_ident()}"
        with hidden.open("w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"), allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
            # The driver may run as another user in the group of the directory.
            os.fchmod(file.fileno(), self.path.stat().st_mode & 0o660)
        hidden.replace(self.path / name)

    def get(self, name: str) -> Any | None:
        """Read a document; None if it does not exist yet, or the directory was removed."""
        try:
            # List the directory first: NFS clients cache for long that a file does not exist.
            if name not in os.listdir(self.path):  # noqa: PTH208 (a name is all that is wanted)
                return None
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    @property
    def gone(self) -> bool:
        """Whether the directory was removed."""
        return not self.path.is_dir()
