"""Opens what `drctl connect` needs from outside: the workers of Connect clusters."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.app.notices import notices
from drctl.config.link import Link
from drctl.engine.entries import What
from drctl.model.errors import DrctlError, UsageError
from drctl.steps.connectors import BEFORE, RestartConnectors, SaveSourcePositions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.fields import WebAddress
    from drctl.connect.client import Access, ConnectReader
    from drctl.connectors.applying import OffsetsPlan
    from drctl.connectors.results import OffsetsResult, Restarted, Treated
    from drctl.engine.kind import Outcome
    from drctl.engine.run_state import RunState

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
            "no link has Connect workers", "pass --connect URL, or set `connect` of a replicator"
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
                "--connect: a password in a command line is visible to other users: use"
                " 'http://user:${env:NAME}@host:8083'"
            )
        if addresses[-1].user is not None and not addresses[-1].secure:
            notices().warn(
                f"--connect {addresses[-1]}: a password is sent over plain http: use https"
            )
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
def ward(workers: ConnectCluster) -> "Iterator[ConnectReader]":
    """What looks at the connectors of some workers."""
    from drctl.connect.client import ConnectReader

    with closing(
        ConnectReader(*workers.addresses, timeout_s=adapters.TIMEOUT_S, access=workers.access)
    ) as opened:
        yield opened


WORKERS = "connect:"
"""The name in the journal of runs about connectors without a link."""


@dataclass(frozen=True, slots=True)
class WorkersLink(Link):
    """What runs about the connectors of some workers have for a link."""

    workers: ConnectCluster = field(kw_only=True)


def link_of(config: "Config", workers: ConnectCluster) -> WorkersLink:
    """What runs about the connectors of these workers have for a link.

    Their journal is on the cluster that survives: the target of the first link that names the
    workers, else of the first link, else the first cluster.
    """
    links = [config.link(name) for name in config.links]
    named = [link for link in links if _names(link, workers)]
    keeper = next((link.target for link in (*named, *links)), next(iter(config.clusters)))
    over = config.inside(keeper)
    given = keeper, over.source_config, keeper, over.target_config, over.settings
    key = over.journal_key
    return WorkersLink(f"{WORKERS}{workers.place}", *given, journal_key=key, workers=workers)


def _names(link: "Link", workers: ConnectCluster) -> bool:
    replicator = link.settings.replicator
    known = [each.connect or () for each in (replicator, replicator.reverse) if each]
    places = {adapters.worker_at(url).place for urls in known for url in urls}
    return workers.place in places


def link_named(config: "Config", name: str) -> WorkersLink:
    """The same by how the journal calls it.

    Raises:
        UsageError: no link of drctl.yaml has such workers.
    """
    place = name.removeprefix(WORKERS)
    for known in known_workers(config, None) if _has_workers(config) else ():
        if known.place == place:
            return link_of(config, known)
    raise UsageError(f"no link has Connect workers at {place}", "pass --connect URL")


def restarted(
    names: "Sequence[str]", state: "RunState", reader: "ClusterLinkReader"
) -> "tuple[Restarted, ...]":
    """What became of connectors that a run restarted: how often the journal says, the rest a look.

    Raises:
        Unreachable: no worker answered.
    """
    from drctl.connectors.results import restarted as became

    now = reader.workers().all()
    sent = [
        name
        for effect in state.effects
        if state.plan.step(effect.step).kind == RestartConnectors.name
        for name in RestartConnectors().read_intent(effect.intent).restarted
    ]
    return tuple(became(n, now.get(n), sent.count(n), _said(n, state)) for n in names)


def _said(name: str, state: "RunState") -> str:
    """What a worker answered to its last restart; empty where that was taken."""
    said = ""
    for entry in state.entries:
        if entry["entry"] == What.INTEND:
            said = ""
        elif entry["entry"] == What.APPLIED:
            told = (c.removeprefix(f"{name}: ") for c in entry["errors"] if c.startswith(name))
            said = next(told, said)
    return said


def treated(state: "RunState", outcome: "Outcome", folder: str) -> "Treated":
    """How a remedy ended."""
    from drctl.connectors.results import Treated

    stands = {effect.step for effect in state.effects if effect.done and effect.current}
    words = {e["step"]: str(e["words"]) for e in state.entries if e["entry"] == What.DONE}
    done = tuple(words[step.id] for step in state.plan.steps if step.id in stands & words.keys())
    kept = any(state.plan.step(step).kind == SaveSourcePositions.name for step in stands)
    outstanding = next(iter(state.outstanding.values()), "")
    told = f"{outstanding}: see drctl connect status" if outstanding else outcome.words or done[-1]
    return Treated(outcome.exit_code, told, str(Path(folder) / BEFORE) if kept else "", done)


def written(
    plan: "OffsetsPlan",
    state: "RunState",
    outcome: "Outcome",
    reader: "ClusterLinkReader",
    before: str,
) -> "OffsetsResult":
    """What became of positions that a run wrote, as read back."""
    from drctl.connectors.results import OffsetsResult, results_of

    now, why = {}, [outcome.words]
    for name in dict.fromkeys(line.connector for line in plan.writes):
        try:
            now[name] = reader.workers().positions(name)
        except DrctlError as error:
            why.append(error.message)
    told = "; ".join(filter(None, why))
    results = results_of(plan, now, told, open_=not state.status)
    return OffsetsResult(plan, results, state.run, before)
