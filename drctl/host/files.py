"""Permissions of the files that drctl creates: journals and results are private to their owner.

The umask of the process decides, because Parquet, SQLite, Spark and `mkdir` do not set a mode.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_PRIVATE = 0o077
_original: list[int] = []


@contextmanager
def private_files() -> Iterator[None]:
    """Create files and folders that only their owner can read."""
    _original.append(os.umask(_PRIVATE))
    try:
        yield
    finally:
        os.umask(_original.pop())


@contextmanager
def as_open_as(mode: int) -> Iterator[None]:
    """Create files that other users may access as far as they may access a folder of this mode."""
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def world_readable() -> Iterator[None]:
    """Create files with the user's own umask; for content that is not confidential."""
    before = os.umask(_PRIVATE)
    os.umask(_original[0] if _original else before)
    try:
        yield
    finally:
        os.umask(before)


def original_umask() -> int:
    """The umask that drctl was started with, for other programs that it runs; -1 if unchanged."""
    return _original[0] if _original else -1
