"""Atomic writes of files that only their owner can read."""

import os
from pathlib import Path


def write_whole(file: Path, text: str) -> None:
    """Replace a file atomically; the content is on disk when this returns.

    Raises:
        OSError: the file could not be written; an earlier version is unchanged.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    try:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
