"""What drctl makes here is its owner's alone: journals, results, and the folders of them.

The mode of files comes from the process: Parquet, SQLite, Spark and Python's own `mkdir` for the
parents of a folder ask for whatever the umask leaves. What others have to read says so by itself.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

_PRIVATE = 0o077
_before: list[int] = []


@contextmanager
def private_files() -> Iterator[None]:
    """Every file and folder that is made in here can be read by its owner alone."""
    _before.append(os.umask(_PRIVATE))
    try:
        yield
    finally:
        os.umask(_before.pop())


@contextmanager
def as_open_as(mode: int) -> Iterator[None]:
    """What is made in here is as open as a folder of that mode, where others work with it."""
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def world_readable() -> Iterator[None]:
    """What is made in here is as open as the engineer's own umask leaves it: it tells nothing."""
    before = os.umask(_PRIVATE)
    os.umask(_before[0] if _before else before)
    try:
        yield
    finally:
        os.umask(before)


def umask_of_programs() -> int:
    """For programs of others that are run in here: what this process was started with."""
    return _before[0] if _before else -1
