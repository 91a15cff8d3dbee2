"""A backend of HAProxy as endpoint, through the runtime API.

Either each cluster has servers of its own, and those of one take clients while the others are in
maintenance; or the backend has servers whose addresses are changed.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from drctl.config.endpoints import HaproxyEndpoint, host_and_port
from drctl.model.endpoints import (
    EndpointFailed,
    EndpointMoved,
    EndpointRejected,
    EndpointState,
    must_be_of,
)
from drctl.model.errors import Unknown
from drctl.systems.endpoints.haproxy_api import RuntimeApi
from drctl.systems.endpoints.haproxy_servers import Server, servers_of

Servers = Mapping[str, Server]

_STATES = ("ready", "drain", "maint")
_CHANGED_ADDRESS = ("IP changed", "port changed", "no need to change")


class HaproxyReader:
    """Looks at a backend's servers; changes nothing."""

    def __init__(self, settings: HaproxyEndpoint, api: RuntimeApi) -> None:
        self._settings = settings
        self._api = api

    @property
    def endpoint(self) -> str:
        """The backend, and where HAProxy was asked."""
        return f"haproxy {self._settings.backend} at {self._api.name}"

    def observe(self) -> EndpointState:
        """Which servers take clients, and which sessions are open.

        Raises:
            Unreachable: HAProxy does not answer.
            EndpointRejected: it has no such backend, or no such server in it.
            Unknown: it answers what cannot be understood.
        """
        servers = self.servers()
        cluster = _cluster(self._settings, servers)
        return EndpointState(
            self.endpoint,
            cluster,
            self._words(servers, cluster),
            {"servers": {name: server.to_json() for name, server in servers.items()}},
            tuple(_unfinished(self._settings, servers, cluster)) if cluster else (),
        )

    def servers(self) -> Servers:
        """Those that drctl.yaml names, as they are.

        Raises:
            Unreachable: HAProxy does not answer.
            EndpointRejected: it has no such backend, or no such server in it.
            Unknown: it answers what cannot be understood.
        """
        backend = self._settings.backend
        states, statistics = self._api.query(
            f"show servers state {backend}", f"show stat {backend} 4 -1"
        )
        if states.startswith("Can't find backend"):
            raise EndpointRejected(
                f"HAProxy ({self._api.name}) has no backend {backend!r}",
                "check `backend` of the endpoint against haproxy.cfg",
            )
        try:
            found = servers_of(states, statistics, backend)
        except (KeyError, TypeError, ValueError, csv.Error):
            raise Unknown(
                f"HAProxy ({self._api.name}) answers what is no list of servers: {states[:80]!r}",
                "check that the endpoint names the socket of HAProxy's runtime API",
            ) from None
        named = _names(self._settings)
        if missing := [name for name in named if name not in found]:
            raise EndpointRejected(
                f"the backend {backend!r} of HAProxy ({self._api.name}) has no server"
                f" {', '.join(missing)}",
                f"it has {', '.join(found) or 'none'}: check the endpoint against haproxy.cfg",
            )
        return {name: found[name] for name in named}

    def _words(self, servers: Servers, cluster: str | None) -> str:
        shown = ", ".join(_shown(server) for server in servers.values())
        whose = f"clients go to {cluster}" if cluster else "clients go to no cluster, or several"
        return f"{whose}: {shown}"


class HaproxyWriter:
    """Changes which servers take clients, or where they are."""

    def __init__(self, settings: HaproxyEndpoint, api: RuntimeApi) -> None:
        self._settings = settings
        self._api = api
        self._reader = HaproxyReader(settings, api)

    @property
    def endpoint(self) -> str:
        """The backend, and where HAProxy was asked."""
        return self._reader.endpoint

    def switch(self, to: str, before: EndpointState) -> None:
        """Send clients to the cluster, and end sessions to others where that is wanted.

        Raises:
            EndpointMoved: somebody else has changed a server since.
            EndpointRejected: HAProxy does not do it; nothing was changed.
            EndpointFailed: it did part of it.
            Unreachable: it could not be asked; nothing was changed.
            Unknown: no answer came after it had been asked.
        """
        must_be_of(self.endpoint, before)
        seen = _seen(before)
        self._change(_wanted(self._settings, seen, to), (seen,))

    def restore(self, before: EndpointState) -> None:
        """Let each server be as it was, and end sessions to those that take no clients.

        Raises:
            EndpointMoved: somebody else has changed a server since.
            EndpointRejected: HAProxy does not do it; nothing was changed.
            EndpointFailed: it did part of it.
            Unreachable: it could not be asked; nothing was changed.
            Unknown: no answer came after it had been asked.
        """
        must_be_of(self.endpoint, before)
        seen = _seen(before)
        clusters = self._settings.servers or self._settings.addresses
        self._change(seen, [_wanted(self._settings, seen, each) for each in clusters])

    def _change(self, wanted: Servers, known: Sequence[Servers]) -> None:
        """Make servers as wanted; each must be so already, or as in one of those known."""
        now = self._reader.servers()
        for name, server in now.items():
            states = [self._setting(each[name]) for each in (wanted, *known) if name in each]
            if self._setting(server) not in states:
                raise EndpointMoved(
                    f"{self.endpoint} is not as it was when it was looked at: {_shown(server)}",
                    "somebody else changed it; find out who, then begin anew, or put it right by"
                    " hand",
                )
        orders = tuple(self._orders(now, wanted))
        if orders:
            self._judge(orders, self._api.order(*orders))

    def _orders(self, now: Servers, wanted: Servers) -> Iterator[str]:
        """First what takes clients away: nobody must be sent to two clusters at once."""
        for name, server in sorted(wanted.items(), key=lambda item: item[1].state == "ready"):
            place = f"{self._settings.backend}/{name}"
            changed = self._setting(server) != self._setting(now[name])
            if changed and self._settings.addresses:
                yield f"set server {place} addr {server.address} port {server.port}"
            elif changed:
                yield f"set server {place} state {server.state}"
            gone = changed if self._settings.addresses else server.state == "maint"
            if gone and self._settings.cut_sessions:
                yield f"shutdown sessions server {place}"

    def _setting(self, server: Server) -> tuple[str, int] | str:
        """What drctl changes of a server; all else moves by itself, or is somebody else's."""
        return (server.address, server.port) if self._settings.addresses else server.state

    def _judge(self, orders: Sequence[str], answers: Sequence[str]) -> None:
        failed = {
            order: answer
            for order, answer in zip(orders, answers, strict=True)
            if answer and not (" addr " in order and answer.startswith(_CHANGED_ADDRESS))
        }
        if not failed:
            return
        said = "; ".join(f"{order}: {answer}" for order, answer in failed.items())
        if "Permission denied" in said:
            cure = "the socket needs `level admin` in haproxy.cfg"
        else:
            cure = "look at the servers of the backend, and put right what HAProxy complains of"
        kind = EndpointRejected if len(failed) == len(orders) else EndpointFailed
        raise kind(f"HAProxy ({self._api.name}) refused {said}", cure)


def _names(settings: HaproxyEndpoint) -> tuple[str, ...]:
    groups = (settings.servers or settings.addresses).values()
    return tuple(dict.fromkeys(name for group in groups for name in group))


def _wanted(settings: HaproxyEndpoint, seen: Servers, cluster: str) -> dict[str, Server]:
    """How a switch to the cluster leaves the servers."""
    if settings.servers:
        own = settings.servers[cluster]
        return {
            name: replace(server, state="ready" if name in own else "maint")
            for name, server in seen.items()
        }
    places = {name: host_and_port(place) for name, place in settings.addresses[cluster].items()}
    return {
        name: replace(server, address=places[name][0], port=places[name][1])
        for name, server in seen.items()
    }


def _cluster(settings: HaproxyEndpoint, servers: Servers) -> str | None:
    """The only cluster that clients are sent to; some of its own servers may be left out."""
    if settings.addresses:
        return next(
            (c for c in settings.addresses if _wanted(settings, servers, c) == servers), None
        )
    taking = {name for name, server in servers.items() if server.state == "ready"}
    found = [cluster for cluster, own in settings.servers.items() if taking & set(own)]
    return found[0] if len(found) == 1 else None


def configured_cluster(settings: HaproxyEndpoint, state: EndpointState) -> str | None:
    """The cluster to which drctl.yaml would have what was seen; None where it says no such thing.

    What a journal says of servers is put into orders to HAProxy.
    """
    servers = _seen(state)
    known = set(_names(settings))
    if not servers.keys() <= known or any(s.state not in _STATES for s in servers.values()):
        return None
    return _cluster(settings, servers)


def _unfinished(settings: HaproxyEndpoint, servers: Servers, cluster: str) -> Iterator[str]:
    for name, server in _wanted(settings, servers, cluster).items():
        found = servers[name]
        if found.state != server.state:
            yield f"{_shown(found)}, not in {server.state}"
        elif server.state == "maint" and found.sessions:
            yield f"{name} still has {found.sessions} open sessions"
        elif server.state == "ready" and not found.up:
            yield f"{name} takes no clients: its health check fails"


def _seen(state: EndpointState) -> dict[str, Server]:
    return {name: Server.from_json(name, s) for name, s in state.evidence["servers"].items()}


def _shown(server: Server) -> str:
    return f"{server.name} ({server.address}:{server.port}) is in {server.state}"
