"""The drills that were, on this machine: a line each, appended, on disk before anything is said."""

import os
from collections.abc import Sequence
from pathlib import Path

from drctl.model.errors import Unknown
from drctl.systems.journal.files import sync_folder

_HINT = "free space, or set state_dir"


class DrillHistory:
    """A file of lines; a line that a crash cut short is not one."""

    def __init__(self, file: Path) -> None:
        self._file = file

    @property
    def where(self) -> str:
        """The file."""
        return str(self._file)

    def lines(self) -> Sequence[bytes]:
        """All whole lines, the oldest first; none where there is no file.

        Raises:
            Unknown: it cannot be read.
        """
        try:
            return self._file.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise Unknown(f"{self._file} cannot be read: {error.strerror}") from error

    def append(self, line: bytes) -> None:
        """Add one; on disk when this returns.

        Raises:
            Unknown: that is not possible.
        """
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            handle = os.open(self._file, flags, 0o600)
            try:
                # Behind half a line of a crash the new one begins on its own.
                torn = b"" if _ended(handle) else b"\n"
                _write(handle, torn + line + b"\n")
                os.fsync(handle)
            finally:
                os.close(handle)
            sync_folder(self._file.parent)
        except OSError as error:
            raise Unknown(f"{self._file} cannot be written: {error.strerror}", _HINT) from error


def _ended(handle: int) -> bool:
    size = os.fstat(handle).st_size
    return size == 0 or os.pread(handle, 1, size - 1) == b"\n"


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]
