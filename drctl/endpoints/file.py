"""A file as an endpoint: clients, or scripts that start them, read bootstrap servers from it.

The file is replaced atomically: a new file is written to disk and renamed over the old one.
Content that drctl did not write stays on this host, because it may hold secrets. For a rollback,
the journal has its hash, and the old file keeps a second name beside the new one.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from drctl.config.endpoints import BOOTSTRAP, CLUSTER, FileEndpoint
from drctl.model.endpoints import EndpointMoved, EndpointRejected, EndpointState, must_be_of
from drctl.model.errors import Unknown
from drctl.model.text import plural

_MODE_OF_A_NEW_FILE = 0o644
_NO_ATTRIBUTES = (errno.ENOTSUP, errno.ENODATA)


def replaced(path: Path, content: bytes, keep: Path | None) -> None:
    """Replace the file's content; optionally keep the old file under a second name.

    Raises:
        EndpointRejected: it failed; nothing was changed.
        Unknown: it succeeded, but may not survive a crash of the host.
    """
    new = path.with_name(f".{path.name}.new-drctl")
    with _or_rejected(path):
        try:
            _write(new, path, content)
            if keep is not None:
                _keep(path, keep)
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
    _sync_folder(path)


def restore_file(kept: Path, path: Path) -> None:
    """Restore the old file by renaming it back from its second name.

    Raises:
        EndpointRejected: it failed; nothing was changed.
        Unknown: it succeeded, but may not survive a crash of the host.
    """
    with _or_rejected(path):
        kept.replace(path)
    _sync_folder(path)


def remove(path: Path) -> None:
    """Remove the file.

    Raises:
        EndpointRejected: it failed; nothing was changed.
        Unknown: it succeeded, but may not survive a crash of the host.
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
    """Keep the old file as a hard link, not as a copy: its owner and mode stay the same."""
    with suppress(FileExistsError):
        os.link(path, keep)
    if not keep.samefile(path):
        keep.unlink()
        os.link(path, keep)


@contextmanager
def _or_rejected(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EndpointRejected(
            f"{path} cannot be replaced with the same owner and mode: {error.strerror}",
            "run drctl as the file's owner, with write access to its folder; a single file that is"
            " mounted cannot be replaced: mount its folder instead",
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
            f"{path} was replaced, but the change may not survive a crash: {error.strerror}",
            "check the disk, then the content of the file",
        ) from None


_LONGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """The observed state of a file.

    Attributes:
        path: path with all symbolic links resolved.
        content: None if there is no file.
    """

    path: Path
    content: bytes | None
    mode: int = 0
    uid: int = -1
    gid: int = -1

    @property
    def digest(self) -> str:
        """SHA-256 of the content; empty if there is no file."""
        return "" if self.content is None else hashlib.sha256(self.content).hexdigest()


class FileReader:
    """Reads a file.

    Args:
        contents: the content of the file for each cluster.
    """

    def __init__(self, path: Path, contents: Mapping[str, str]) -> None:
        self._path = path
        self._contents = contents

    @property
    def endpoint(self) -> str:
        """The file."""
        return f"file {self._path}"

    def observe(self) -> EndpointState:
        """Read the file, and find the cluster whose content it has.

        Raises:
            EndpointRejected: it cannot be read, or is not a regular file.
        """
        found = self.found()
        cluster = self.cluster_of(found)
        evidence = {"sha256": found.digest}
        if found.content is not None:
            evidence |= {"mode": f"{found.mode:04o}", "owner": f"{found.uid}:{found.gid}"}
        if cluster is not None:
            evidence["content"] = self._contents[cluster]
        return EndpointState(self.endpoint, cluster, self._words(found, cluster), evidence)

    def found(self) -> Found:
        """The file.

        Raises:
            EndpointRejected: it cannot be read, or is not a regular file.
        """
        path = Path(os.path.realpath(self._path))
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST:
                raise EndpointRejected(
                    f"{self._path} is not a regular file, or is too large",
                    "`path` of the endpoint must name a file of at most"
                    f" {plural(_LONGEST, 'byte')}",
                )
            content = path.read_bytes()
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise EndpointRejected(
                    f"{self._path} cannot exist: {path.parent} is not a folder",
                    "create the folder, or correct `path` of the endpoint",
                ) from None
            return Found(path, None)
        except OSError as error:
            raise EndpointRejected(
                f"{self._path} cannot be read: {error.strerror}",
                "grant drctl's user read access, or correct `path` of the endpoint",
            ) from None
        return Found(path, content, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)

    def cluster_of(self, found: Found) -> str | None:
        """The cluster whose configured content equals this content."""
        contents = self._contents.items()
        return next((name for name, each in contents if each.encode() == found.content), None)

    def _words(self, found: Found, cluster: str | None) -> str:
        if found.content is None:
            return f"{self._path} does not exist"
        if cluster is not None:
            return f"{self._path} points to {cluster}"
        size = plural(len(found.content), "byte")
        return f"{self._path} does not have the content of any cluster in drctl.yaml ({size})"


class FileWriter:
    """Replaces a file if it is unchanged since it was read.

    Args:
        contents: the content of the file for each cluster.
    """

    def __init__(self, path: Path, contents: Mapping[str, str]) -> None:
        self._contents = contents
        self._reader = FileReader(path, contents)

    @property
    def endpoint(self) -> str:
        """The file."""
        return self._reader.endpoint

    def switch(self, to: str, before: EndpointState) -> None:
        """Write the content for the cluster to the file.

        Raises:
            EndpointMoved: it was changed by someone else.
            EndpointRejected: it cannot be replaced; nothing was changed.
            Unknown: it was replaced, but may not survive a crash of the host.
        """
        must_be_of(self.endpoint, before)
        found, content = self._reader.found(), self._contents[to].encode()
        if found.content == content:
            return
        if found.digest != before.evidence["sha256"]:
            raise self._moved()
        ours = self._reader.cluster_of(found) is not None
        keep = None if ours or found.content is None else _kept(found.path, found.digest)
        replaced(found.path, content, keep)

    def restore(self, before: EndpointState) -> None:
        """Restore the old file; remove the new one if there was none.

        Raises:
            EndpointMoved: it was changed by someone else.
            EndpointRejected: it cannot be replaced, or its old content is gone.
            Unknown: it was replaced, but may not survive a crash of the host.
        """
        must_be_of(self.endpoint, before)
        found, digest = self._reader.found(), before.evidence["sha256"]
        if found.digest == digest:
            return
        if self._reader.cluster_of(found) is None:
            raise self._moved()
        if not digest:
            remove(found.path)
        elif before.cluster is not None and before.cluster in self._contents:
            self._restore_own(found.path, before.cluster, digest)
        else:
            self._restore_kept(found.path, digest)

    def _restore_own(self, path: Path, cluster: str, digest: str) -> None:
        """Write content from drctl.yaml, not a journal: the content decides where clients go."""
        content = self._contents[cluster].encode()
        if hashlib.sha256(content).hexdigest() != digest:
            raise EndpointRejected(
                f"{path} had the content for {cluster}, but drctl.yaml has other content now",
                "use the drctl.yaml with which the run started, or write the file by hand",
            )
        replaced(path, content, None)

    def _restore_kept(self, path: Path, digest: str) -> None:
        kept = _kept(path, digest)
        try:
            whole = hashlib.sha256(kept.read_bytes()).hexdigest() == digest
        except OSError:
            whole = False
        if not whole:
            raise EndpointRejected(
                f"the previous content of {path} is lost: {kept} is missing or was changed",
                "write the file by hand; drctl did not write that content, so no journal has it",
            )
        restore_file(kept, path)

    def _moved(self) -> EndpointMoved:
        return EndpointMoved(
            f"{self.endpoint} has changed since it was read",
            "someone else changed it; find out who, then start again or correct it by hand",
        )


def contents_of(
    settings: FileEndpoint, bootstrap_of: Callable[[str], str], clusters: tuple[str, ...]
) -> dict[str, str]:
    """The content of the file for each cluster."""

    def content(cluster: str) -> str:
        bootstrap = settings.clusters.get(cluster) or bootstrap_of(cluster)
        values = {CLUSTER: cluster, BOOTSTRAP: bootstrap}
        return re.sub("|".join(map(re.escape, values)), lambda m: values[m[0]], settings.content)

    return {cluster: content(cluster) for cluster in dict.fromkeys((*clusters, *settings.clusters))}


def _kept(path: Path, digest: str) -> Path:
    return path.with_name(f".{path.name}.before-drctl-{digest[:12]}")
