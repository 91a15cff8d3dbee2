"""The last log lines of a Kafka client, to see why it did not return to its group."""

import logging
from collections import deque
from pathlib import Path

_LINES = 20_000


class ClientLog(logging.Handler):
    """Kept in memory; written when someone needs it.

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
        """Write all lines."""
        path.write_text("".join(f"{line}\n" for line in list(self._lines)), encoding="utf-8")
