"""Opens what `drctl connect` needs from outside: the workers of Connect clusters, and journals."""

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.app.notices import notices
from drctl.model.errors import Unknown, UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.fields import WebAddress
    from drctl.connect.client import Access
    from drctl.connect.repair import ConnectCurer, ConnectHealth
    from drctl.connectors.applying import Export
    from drctl.model.journal import Entry
    from drctl.stores.journal_files import JournalFile

_WRITING_S = 30.0

# Between two URLs; a password may hold a comma, too.
_BETWEEN = re.compile(r"\s*,\s*(?=https?://|\$\{|$)")
_PASSWORD = "${env:CONNECT_PASSWORD}"  # stands in printed commands for a typed one


@dataclass(frozen=True, slots=True)
class ConnectCluster:
    """The workers of one Connect cluster, and how they are shown who asks."""

    addresses: "tuple[WebAddress, ...]"
    access: "Access"

    @property
    def place(self) -> str:
        """Host and port of the first worker: what a Connect cluster is called here."""
        return self.addresses[0].place


def known_workers(config: "Config", link: str | None) -> tuple[ConnectCluster, ...]:
    """Those of a link, or of all links; each Connect cluster once.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
        UsageError: no link has any.
    """
    found: dict[str, ConnectCluster] = {}
    for name in [link] if link else config.links:
        replicator = config.link(name).settings.replicator
        for given in (replicator, replicator.reverse):
            if given and given.connect:
                addresses = tuple(map(adapters.worker_at, given.connect))
                workers = ConnectCluster(addresses, adapters.connect_access(given.connect_access))
                found.setdefault(",".join(map(str, addresses)), workers)
    if not found:
        raise UsageError(
            "no link names Connect workers", "give --connect URL, or `connect` of its replicator"
        )
    return tuple(found.values())


def typed_workers(text: str, config: "Config | None") -> ConnectCluster:
    """Workers as typed, with commas between them.

    A URL may refer to a password as in drctl.yaml. One that names nobody gets user, password,
    headers and certificates from drctl.yaml, where that knows a worker at the same place.

    Raises:
        ConfigError: what one refers to is missing.
        UsageError: one is no URL of a worker.
    """
    from drctl.config.given import given_url, holds_password
    from drctl.connect.client import Access

    addresses = []
    for url in _parted(text):
        try:
            setting = given_url("--connect", url, Path())
        except UsageError as error:
            shown = "it" if "@" in url else repr(url)  # what is no URL may hold its password
            raise UsageError(f"--connect: {shown} is not a URL", error.hint) from None
        addresses.append(adapters.worker_at(setting))
        if holds_password(url):
            notices().warn(
                "--connect: other users can see the password in a command line: refer to it,"
                " 'http://user:${env:NAME}@host:8083'"
            )
        if addresses[-1].user is not None and not addresses[-1].secure:
            notices().warn(f"--connect {addresses[-1]}: a password goes over plain http: use https")
    typed = ConnectCluster(tuple(addresses), Access())
    known = _known_at(typed.addresses, config) if config else None
    return replace(typed, access=known) if known else typed


def retyped(text: str) -> str:
    """Workers as typed, for a command line that is printed; a password only by reference."""
    from drctl.config.given import holds_password
    from drctl.config.secret import MASK, hide_user_info

    return ",".join(
        hide_user_info(url).replace(f":{MASK}@", f":{_PASSWORD}@") if holds_password(url) else url
        for url in _parted(text)
    )


def _parted(text: str) -> list[str]:
    return [url for each in _BETWEEN.split(text) if (url := each.strip())] or [text]


def _known_at(addresses: "tuple[WebAddress, ...]", config: "Config") -> "Access | None":
    """What drctl.yaml says of workers at the very same places; else nobody is shown a password."""
    if any(address.user is not None for address in addresses):
        return None
    wanted = {(each.secure, each.host, each.port) for each in addresses}
    for known in known_workers(config, None) if _has_workers(config) else ():
        places = {(each.secure, each.host, each.port): each for each in known.addresses}
        if wanted <= places.keys():
            first = places[next(iter(wanted))]
            if first.user is None:
                return known.access
            return replace(known.access, user=first.user, password=first.password)
    return None


def _has_workers(config: "Config") -> bool:
    replicators = (config.link(name).settings.replicator for name in config.links)
    return any(each.connect or (each.reverse and each.reverse.connect) for each in replicators)


def only_workers(config: "Config", connect: str | None, link: str | None) -> ConnectCluster:
    """The workers that are meant.

    Raises:
        ConfigError: a secret that is referred to is missing.
        UsageError: there are several Connect clusters, or none.
    """
    if connect:
        return typed_workers(connect, config)
    known = known_workers(config, link)
    if len(known) > 1:
        named = "; ".join(each.place for each in known)
        raise UsageError("which Connect cluster?", f"--connect URL: {named}")
    return known[0]


@contextmanager
def ward(workers: ConnectCluster) -> "Iterator[ConnectHealth]":
    """What looks at the connectors of some workers."""
    from drctl.connect.repair import ConnectHealth

    with closing(
        ConnectHealth(*workers.addresses, timeout_s=adapters.PATIENCE_S, access=workers.access)
    ) as opened:
        yield opened


@contextmanager
def curer(workers: ConnectCluster) -> "Iterator[ConnectCurer]":
    """What changes the connectors of some workers."""
    from drctl.connect.repair import ConnectCurer

    with closing(
        ConnectCurer(*workers.addresses, timeout_s=_WRITING_S, access=workers.access)
    ) as opened:
        yield opened


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

        from drctl.connectors.applying import export_document
        from drctl.views.files import write_whole

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
    from drctl.stores.journal_files import JournalFile

    folder = config.state_dir / "connect"
    hint = "nothing that is not in the journal was sent; free space, or set state_dir"
    with JournalFile(folder, run, hint) as journal:
        yield FileNotebook(folder / run, journal)
