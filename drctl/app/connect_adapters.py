"""Builds adapters for `drctl connect`: clients of Connect workers."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters, run_adapters
from drctl.app.notices import notices
from drctl.config.link import Link
from drctl.engine.entries import What
from drctl.model.errors import DrctlError, UsageError
from drctl.steps.connectors import BEFORE, RestartConnectors, SaveSourcePositions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.fields import WebAddress
    from drctl.config.schema import ReplicatorConfig, ReverseConfig, SourceWorkersConfig
    from drctl.connect.client import Access, ConnectReader
    from drctl.connectors.applying import OffsetsPlan
    from drctl.connectors.results import OffsetsResult, RemedyResult, Restarted
    from drctl.engine.kind import Outcome
    from drctl.engine.run_state import RunState
    from drctl.offsets.tracking import Exported

# Separates URLs; a password may contain a comma, too.
_SEPARATOR = re.compile(r"\s*,\s*(?=https?://|\$\{|$)")
_PASSWORD = "${env:CONNECT_PASSWORD}"  # replaces a typed password in printed commands


@dataclass(frozen=True, slots=True)
class ConnectCluster:
    """The workers of one Connect cluster, and the credentials for them."""

    addresses: "tuple[WebAddress, ...]"
    access: "Access"

    @property
    def place(self) -> str:
        """Host and port of the first worker, which identify the Connect cluster."""
        return self.addresses[0].place


def known_workers(config: "Config", link: str | None) -> tuple[ConnectCluster, ...]:
    """The Connect clusters of a link, or of all links, each once.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
        UsageError: no link has Connect workers.
    """
    found: dict[str, ConnectCluster] = {}
    for name in [link] if link else config.links:
        for given in _workers_of(config.link(name)):
            if given.connect:
                addresses = tuple(map(adapters.worker_at, given.connect))
                workers = ConnectCluster(addresses, adapters.connect_access(given.connect_access))
                found.setdefault(",".join(map(str, addresses)), workers)
    if not found:
        raise UsageError(
            "no link has Connect workers", "pass --connect URL, or set `connect` of a replicator"
        )
    return tuple(found.values())


def _workers_of(link: Link) -> "Iterator[ReplicatorConfig | ReverseConfig | SourceWorkersConfig]":
    """Every place of a link's configuration that may name Connect workers."""
    replicator, moving = link.settings.replicator, link.settings.source_connectors
    yield replicator
    if replicator.reverse:
        yield replicator.reverse
    if moving:
        yield from (moving.source, moving.target)


def typed_workers(text: str, config: "Config | None") -> ConnectCluster:
    """Parse the URLs of workers, separated by commas.

    A URL may refer to a password as in drctl.yaml. One without a user gets the credentials that
    drctl.yaml has for a worker at the same address.

    Raises:
        ConfigError: a secret that a URL refers to is missing.
        UsageError: a URL is invalid.
    """
    from drctl.config.given import given_url, holds_password
    from drctl.connect.client import Access

    addresses = []
    for url in _urls(text):
        try:
            setting = given_url("--connect", url, Path())
        except UsageError as error:
            shown = "it" if "@" in url else repr(url)  # an invalid URL may contain a password
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
    """The URLs for a printed command line, with references instead of passwords."""
    from drctl.config.given import holds_password
    from drctl.config.secret import MASK, hide_user_info

    return ",".join(
        hide_user_info(url).replace(f":{MASK}@", f":{_PASSWORD}@") if holds_password(url) else url
        for url in _urls(text)
    )


def _urls(text: str) -> list[str]:
    return [url for each in _SEPARATOR.split(text) if (url := each.strip())] or [text]


def _known_at(addresses: "tuple[WebAddress, ...]", config: "Config") -> "Access | None":
    """The credentials in drctl.yaml for workers at exactly these addresses; None for others."""
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
    links = (config.link(name) for name in config.links)
    return any(given.connect for link in links for given in _workers_of(link))


def only_workers(config: "Config", connect: str | None, link: str | None) -> ConnectCluster:
    """The workers of the only Connect cluster that the options select.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
        UsageError: there are several Connect clusters, or none.
    """
    if connect:
        return typed_workers(connect, config)
    known = known_workers(config, link)
    if len(known) > 1:
        named = "; ".join(each.place for each in known)
        raise UsageError(
            f"there are several Connect clusters: {named}", "choose one: --connect URL"
        )
    return known[0]


@contextmanager
def connect_reader(workers: ConnectCluster) -> "Iterator[ConnectReader]":
    """A reader of the connectors of a Connect cluster."""
    from drctl.connect.client import ConnectReader

    with closing(
        ConnectReader(*workers.addresses, timeout_s=adapters.TIMEOUT_S, access=workers.access)
    ) as opened:
        yield opened


def positions_reader(link: Link) -> "Callable[[int], Exported]":
    """A function that reads the positions of a link's source connectors, for `drctl offsets track`.

    The function's argument is the time, in milliseconds since 1970 UTC.
    """
    from drctl.connectors.moving import read_positions

    moving = link.settings.source_connectors
    if moving is None:
        return lambda _: {}
    place = adapters.worker_at(moving.source.connect[0]).place
    workers = run_adapters.source_workers_reader(link, link.source)
    return lambda at_ms: read_positions(moving.names, workers, place, at_ms)


WORKERS = "connect:"
"""The prefix of the link name in journals of runs about connectors that have no link."""


@dataclass(frozen=True, slots=True)
class WorkersLink(Link):
    """The link of runs about the connectors of a Connect cluster."""

    workers: ConnectCluster = field(kw_only=True)


def link_of(config: "Config", workers: ConnectCluster) -> WorkersLink:
    """The link of runs about the connectors of a Connect cluster.

    The journal of these runs is on the target of the first link that names the workers; if none
    does, on the target of the first link; without links, on the first cluster.
    """
    links = [config.link(name) for name in config.links]
    named = [link for link in links if _names(link, workers)]
    cluster = next((link.target for link in (*named, *links)), next(iter(config.clusters)))
    inside = config.inside(cluster)
    given = cluster, inside.source_config, cluster, inside.target_config, inside.settings
    key = inside.journal_key
    return WorkersLink(f"{WORKERS}{workers.place}", *given, journal_key=key, workers=workers)


def _names(link: "Link", workers: ConnectCluster) -> bool:
    known = (given.connect or () for given in _workers_of(link))
    places = {adapters.worker_at(url).place for urls in known for url in urls}
    return workers.place in places


def link_named(config: "Config", name: str) -> WorkersLink:
    """The link of a run by its name in the journal.

    Raises:
        UsageError: no link of drctl.yaml has Connect workers at this address.
    """
    place = name.removeprefix(WORKERS)
    for known in known_workers(config, None) if _has_workers(config) else ():
        if known.place == place:
            return link_of(config, known)
    raise UsageError(f"no link has Connect workers at {place}", "pass --connect URL")


def restarted(
    names: "Sequence[str]", state: "RunState", reader: "ClusterLinkReader"
) -> "tuple[Restarted, ...]":
    """The outcome of restarts: attempts from the journal, states from the workers.

    Raises:
        Unreachable: no worker answered.
    """
    from drctl.connectors.results import restarted as result

    now = reader.workers().all()
    sent = [
        name
        for effect in state.effects
        if state.plan.step(effect.step).kind == RestartConnectors.name
        for name in RestartConnectors().read_intent(effect.intent).restarted
    ]
    return tuple(result(n, now.get(n), sent.count(n), _error(n, state)) for n in names)


def _error(name: str, state: "RunState") -> str:
    """The worker's error response to the last restart; empty if it accepted the restart."""
    error = ""
    for entry in state.entries:
        if entry["entry"] == What.INTEND:
            error = ""
        elif entry["entry"] == What.APPLIED:
            found = (c.removeprefix(f"{name}: ") for c in entry["errors"] if c.startswith(name))
            error = next(found, error)
    return error


def remedy_result(state: "RunState", outcome: "Outcome", folder: str) -> "RemedyResult":
    """The outcome of a remedy."""
    from drctl.connectors.results import RemedyResult

    effective = {effect.step for effect in state.effects if effect.done and effect.current}
    words = {e["step"]: str(e["message"]) for e in state.entries if e["entry"] == What.DONE}
    done = tuple(words[step.id] for step in state.plan.steps if step.id in effective & words.keys())
    saved = any(state.plan.step(step).kind == SaveSourcePositions.name for step in effective)
    outstanding = next(iter(state.outstanding.values()), "")
    result = outcome.message or done[-1]
    if outstanding:
        result = f"{outstanding}: see drctl connect status"
    return RemedyResult(
        outcome.exit_code, result, str(Path(folder) / BEFORE) if saved else "", done
    )


def written(
    plan: "OffsetsPlan",
    state: "RunState",
    outcome: "Outcome",
    reader: "ClusterLinkReader",
    before: str,
) -> "OffsetsResult":
    """The outcome of writing source positions, as read back."""
    from drctl.connectors.results import OffsetsResult, results_of

    now, why = {}, [outcome.message]
    for name in dict.fromkeys(line.connector for line in plan.writes):
        try:
            now[name] = reader.workers().positions(name)
        except DrctlError as error:
            why.append(error.message)
    results = results_of(plan, now, "; ".join(filter(None, why)), open_=not state.status)
    return OffsetsResult(plan, results, state.run, before)
