"""Opens what `drctl connect` needs from outside: the workers of Connect clusters, and journals."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from drctl.cli import wiring
from drctl.model.errors import Unknown, UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.connectors.positions import Export
    from drctl.model.journal import Entry
    from drctl.systems.connect.cure import ConnectCurer, ConnectWard
    from drctl.systems.journal.files import JournalFile

_WRITING_S = 30.0

Urls = tuple[str, ...]
"""Of the workers of one Connect cluster."""


def known_workers(config: "Config", link: str | None) -> tuple[Urls, ...]:
    """Those of a link, or of all links; each Connect cluster once.

    Raises:
        UsageError: no link has any.
    """
    found: dict[Urls, None] = {}
    for name in [link] if link else config.links:
        replicator = config.link(name).settings.replicator
        reverse = replicator.reverse
        for urls in (replicator.connect, reverse.connect if reverse else None):
            if urls:
                found[tuple(map(wiring.clear_text, urls))] = None
    if not found:
        raise UsageError(
            "no link names Connect workers", "give --connect URL, or `connect` of its replicator"
        )
    return tuple(found)


def split(text: str) -> Urls:
    """Workers as typed, with commas between them.

    Raises:
        UsageError: one is no URL of a worker.
    """
    urls = tuple(each.strip() for each in text.split(",") if each.strip())
    for url in urls or (text,):
        if not _is_url(url):
            raise UsageError(f"--connect: {url!r} is not a URL", "for example http://connect:8083")
    return urls


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def only_workers(config: "Config", connect: str | None, link: str | None) -> Urls:
    """The workers that are meant.

    Raises:
        UsageError: there are several Connect clusters, or none.
    """
    if connect:
        return split(connect)
    known = known_workers(config, link)
    if len(known) > 1:
        named = "; ".join(map(place_of, known))
        raise UsageError("which Connect cluster?", f"--connect URL: {named}")
    return known[0]


def place_of(urls: Sequence[str]) -> str:
    """Host and port of the first worker: what a Connect cluster is called here."""
    return urlsplit(urls[0]).netloc.rpartition("@")[2] or urls[0]


@contextmanager
def ward(urls: Urls) -> "Iterator[ConnectWard]":
    """What looks at the connectors of some workers."""
    from drctl.systems.connect.cure import ConnectWard

    opened = ConnectWard(*urls, timeout_s=wiring.PATIENCE_S)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def curer(urls: Urls) -> "Iterator[ConnectCurer]":
    """What changes the connectors of some workers."""
    from drctl.systems.connect.cure import ConnectCurer

    opened = ConnectCurer(*urls, timeout_s=_WRITING_S)
    try:
        yield opened
    finally:
        opened.close()


class FileNotebook:
    """Implements `Notebook` of `drctl.connectors.writing` in the folder of a run."""

    def __init__(self, folder: Path, journal: "JournalFile") -> None:
        self._folder = folder
        self._journal = journal

    @property
    def where(self) -> str:
        """The journal."""
        return self._journal.where

    def append(self, entries: "Sequence[Entry]") -> None:
        """Write entries down; on disk when this returns.

        Raises:
            Unknown: that is not possible.
        """
        self._journal.append(entries)

    def keep(self, before: "Export") -> str:
        """Write down what was there; the file.

        Raises:
            Unknown: that is not possible.
        """
        import json

        from drctl.connectors.positions import export_document
        from drctl.report.private_file import write_whole

        file = self._folder / "before.json"
        text = json.dumps(export_document(before, str(file)), indent=2) + "\n"
        try:
            write_whole(file, text)
        except OSError as error:
            raise Unknown(f"{file} cannot be written: {error.strerror}") from None
        return str(file)


@contextmanager
def notebook(config: "Config", run: str) -> Iterator[FileNotebook]:
    """The journal of a new run, and room for what was there before it."""
    from drctl.systems.journal.files import JournalFile

    folder = config.state_dir / "connect"
    hint = "nothing that is not in the journal was sent; free space, or set state_dir"
    with JournalFile(folder, run, hint) as journal:
        yield FileNotebook(folder / run, journal)
