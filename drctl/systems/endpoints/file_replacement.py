"""Files replaced at once: owner, mode and extended attributes kept, on disk when done."""

import errno
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.model.endpoints import EndpointRejected
from drctl.model.errors import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODE_OF_A_NEW_FILE = 0o644
_NO_ATTRIBUTES = (errno.ENOTSUP, errno.ENODATA)


def replaced(path: Path, content: bytes, keep: Path | None) -> None:
    """Let the file hold this; what it was before gets a second name where one is given.

    Raises:
        EndpointRejected: that is not possible; nothing was changed.
        Unknown: it was done, and may not survive a crash of the machine.
    """
    new = path.with_name(f".{path.name}.new-drctl")
    with _or_rejected(path), _without(new):
        _write(new, path, content)
        if keep is not None:
            _keep(path, keep)
        new.replace(path)
    _sync_folder(path)


def put_back(kept: Path, path: Path) -> None:
    """Give a file that was kept its name again.

    Raises:
        EndpointRejected: that is not possible; nothing was changed.
        Unknown: it was done, and may not survive a crash of the machine.
    """
    with _or_rejected(path):
        kept.replace(path)
    _sync_folder(path)


def remove(path: Path) -> None:
    """Let there be no file.

    Raises:
        EndpointRejected: that is not possible; nothing was changed.
        Unknown: it was done, and may not survive a crash of the machine.
    """
    with _or_rejected(path):
        path.unlink()
    _sync_folder(path)


def _write(new: Path, like: Path, content: bytes) -> None:
    new.unlink(missing_ok=True)
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        _liken(handle, like)
        os.fsync(handle)


def _liken(handle: int, like: Path) -> None:
    if not like.exists():
        os.fchmod(handle, _MODE_OF_A_NEW_FILE)
        return
    status = like.stat()
    own = os.fstat(handle)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(handle, status.st_uid, status.st_gid)
    os.fchmod(handle, status.st_mode & 0o7777)
    try:
        names = os.listxattr(like)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise
        return
    for name in names:
        value = os.getxattr(like, name)
        if name not in os.listxattr(handle) or os.getxattr(handle, name) != value:
            os.setxattr(handle, name, value)


def _keep(path: Path, keep: Path) -> None:
    """A second name, not a copy: owner, mode and all else stay what they are."""
    with suppress(FileExistsError):
        os.link(path, keep)
    if not keep.samefile(path):
        keep.unlink()
        os.link(path, keep)


@contextmanager
def _without(new: Path) -> "Iterator[None]":
    try:
        yield
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def _or_rejected(path: Path) -> "Iterator[None]":
    try:
        yield
    except OSError as error:
        raise EndpointRejected(
            f"{path} cannot be replaced with its owner and mode kept: {error.strerror}",
            "run drctl as the file's owner, with the right to write in its folder; a file that is"
            " mounted by itself cannot be replaced: mount its folder",
        ) from None


def _sync_folder(path: Path) -> None:
    try:
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise Unknown(
            f"{path} was replaced, and may be as before after a crash: {error.strerror}",
            "look at the disk; then look at the file",
        ) from None
