"""What a client of Kafka says of its group, the last of it: who never came back to it, and why."""

import logging
from collections import deque
from pathlib import Path

_LINES = 20_000


class ClientLog(logging.Handler):
    """Kept in memory; written where somebody has to look at it.

    Attributes:
        logger: for the client's `logger`.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=_LINES)
        self.logger = logging.Logger(name, logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, with seconds since the epoch."""
        self._lines.append(f"{record.created:.3f} {record.getMessage()}")

    def write(self, path: Path) -> None:
        """All that is kept."""
        path.write_text("".join(f"{line}\n" for line in list(self._lines)), encoding="utf-8")
