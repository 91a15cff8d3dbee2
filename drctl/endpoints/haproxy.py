"""An HAProxy backend as an endpoint, through the runtime API.

Either each cluster has its own servers, and those of all other clusters are in maintenance; or the
addresses of the backend's servers are changed.
"""

import csv
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from drctl.config.endpoints import HaproxyEndpoint, host_and_port
from drctl.host.connections import connect
from drctl.model.endpoints import (
    EndpointFailed,
    EndpointMoved,
    EndpointRejected,
    EndpointState,
    must_be_of,
)
from drctl.model.errors import DrctlError, Unknown, Unreachable
from drctl.model.text import plural

# Each answer ends with an empty line, and may consist of nothing else.
_ANSWER = re.compile(r"((?:[^\n]+\n)*)\n")
_LONGEST_LINE = 15_000
_MOST_BYTES = 16 << 20


class RuntimeApi:
    """The runtime API of one HAProxy process; connects for each call.

    Args:
        place: path of a Unix socket, or host and port.
        timeout_s: timeout of each call.
    """

    def __init__(self, place: str | tuple[str, int], timeout_s: float = 5) -> None:
        self._place = place
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        """The address of the runtime API."""
        return self._place if isinstance(self._place, str) else "{}:{}".format(*self._place)

    def query(self, *commands: str) -> tuple[str, ...]:
        """The answers to commands that change nothing.

        Raises:
            Unreachable: it does not answer.
        """
        return self._call(
            commands,
            Unreachable(
                f"HAProxy ({self.name}) did not answer",
                "check that the endpoint names HAProxy's `stats socket`, not a Kafka port",
            ),
        )

    def order(self, *commands: str) -> tuple[str, ...]:
        """The answers to commands that change something.

        Raises:
            Unreachable: it could not be reached; nothing was changed.
            EndpointRejected: the commands exceed one line; nothing was changed.
            Unknown: no complete answer to the request.
        """
        return self._call(
            commands,
            Unknown(
                f"HAProxy ({self.name}) did not confirm the switch",
                "check its servers first; repeating the switch is harmless",
            ),
        )

    def _call(self, commands: Sequence[str], lost: DrctlError) -> tuple[str, ...]:
        line = "; ".join(commands) + "\n"
        if len(line) > _LONGEST_LINE:
            raise EndpointRejected(
                f"HAProxy ({self.name}) does not accept a command line of {len(line)} characters",
                "the backend has too many servers: split it into two",
            )
        with self._connected() as stream:
            try:
                text = self._exchanged(stream, line.encode())
            except OSError:
                raise lost from None
        answers = _ANSWER.findall(text)
        if len(answers) != len(commands):
            raise lost
        return tuple(answer.strip() for answer in answers)

    def _exchanged(self, stream: socket.socket, line: bytes) -> str:
        until = time.monotonic() + self._timeout_s
        stream.settimeout(self._timeout_s)
        stream.sendall(line)
        parts, length = [], 0
        while part := stream.recv(1 << 16):
            parts.append(part)
            length += len(part)
            left = until - time.monotonic()
            if left <= 0 or length > _MOST_BYTES:
                raise TimeoutError
            stream.settimeout(left)
        return b"".join(parts).decode(errors="replace")

    def _connected(self) -> socket.socket:
        try:
            if isinstance(self._place, tuple):
                return connect(self._place, self._timeout_s)
            stream = socket.socket(socket.AF_UNIX)
            try:
                stream.settimeout(self._timeout_s)
                stream.connect(self._place)
            except OSError:
                stream.close()
                raise
        except OSError as error:
            raise Unreachable(
                f"HAProxy ({self.name}) cannot be reached: {error.strerror or error}",
                "the socket belongs to another user: set `user` and `mode` of `stats socket`"
                if isinstance(error, PermissionError)
                else "check that HAProxy runs, and that the endpoint names the socket of its"
                " runtime API",
            ) from None
        return stream


def opened(settings: HaproxyEndpoint, path: Callable[[str], Path]) -> RuntimeApi:
    """The API of an endpoint; connects for each call.

    Args:
        path: resolves a file name from the configuration.
    """
    if settings.address:
        return RuntimeApi(host_and_port(settings.address), settings.timeout_s)
    return RuntimeApi(str(path(settings.socket or "")), settings.timeout_s)


# Bits of srv_admin_state (see `show servers state` in HAProxy's management guide).
_MAINTENANCE = 0x01 | 0x02 | 0x20
_DRAIN = 0x08 | 0x10
_RUNNING = (1, 2)

_STATES = ("ready", "drain", "maint")
_CHANGED_ADDRESS = ("IP changed", "port changed", "no need to change")


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a backend.

    Attributes:
        state: `ready`, `drain` or `maint`, as in `set server ... state`.
        up: whether it accepts clients according to its health checks, if it has any.
        sessions: number of open sessions.
    """

    name: str
    address: str
    port: int
    state: str
    up: bool
    sessions: int

    def to_json(self) -> dict[str, Any]:
        """The JSON form for the evidence of an `EndpointState`."""
        return {name: value for name, value in asdict(self).items() if name != "name"}

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> "Server":
        """Read the result of `to_json`."""
        return cls(name, data["address"], data["port"], data["state"], data["up"], data["sessions"])


Servers = Mapping[str, Server]


def servers_of(states: str, statistics: str, backend: str) -> dict[str, Server]:
    """Parse the servers, by name, from `show servers state` and `show stat`.

    Raises:
        ValueError: an answer does not have the documented format.
    """
    lines = [line.removeprefix("# ") for line in states.splitlines()[1:]]
    rows = list(csv.DictReader(lines, delimiter=" "))
    counts = csv.DictReader(statistics.removeprefix("# ").splitlines())
    sessions = {row["svname"]: int(row["scur"] or 0) for row in counts if row["pxname"] == backend}
    found = {}
    for row in rows:
        admin, name = int(row["srv_admin_state"]), row["srv_name"]
        found[name] = Server(
            name=name,
            address=row["srv_addr"],
            port=int(row["srv_port"]),
            state="maint" if admin & _MAINTENANCE else "drain" if admin & _DRAIN else "ready",
            up=int(row["srv_op_state"]) in _RUNNING,
            sessions=sessions.get(name, 0),
        )
    return found


class HaproxyReader:
    """Reads a backend's servers."""

    def __init__(self, settings: HaproxyEndpoint, api: RuntimeApi) -> None:
        self._settings = settings
        self._api = api

    @property
    def endpoint(self) -> str:
        """The backend, and the address of HAProxy's API."""
        return f"haproxy {self._settings.backend} at {self._api.name}"

    def observe(self) -> EndpointState:
        """Read which servers accept clients, and open sessions.

        Raises:
            Unreachable: HAProxy does not answer.
            EndpointRejected: it has no such backend, or no such server in it.
            Unknown: its answer cannot be parsed.
        """
        servers = self.servers()
        cluster = _cluster(self._settings, servers)
        whose = f"clients go to {cluster}" if cluster else "clients go to no cluster, or several"
        return EndpointState(
            self.endpoint,
            cluster,
            f"{whose}: {', '.join(map(_shown, servers.values()))}",
            {"servers": {name: server.to_json() for name, server in servers.items()}},
            tuple(_unfinished(self._settings, servers, cluster)) if cluster else (),
        )

    def servers(self) -> Servers:
        """The current state of the servers in drctl.yaml.

        Raises:
            Unreachable: HAProxy does not answer.
            EndpointRejected: it has no such backend, or no such server in it.
            Unknown: its answer cannot be parsed.
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
                f"HAProxy ({self._api.name}) did not return a list of servers: {states[:80]!r}",
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


class HaproxyWriter:
    """Changes which servers accept clients, or their addresses."""

    def __init__(self, settings: HaproxyEndpoint, api: RuntimeApi) -> None:
        self._settings = settings
        self._api = api
        self._reader = HaproxyReader(settings, api)

    @property
    def endpoint(self) -> str:
        """The backend, and the address of HAProxy's API."""
        return self._reader.endpoint

    def switch(self, to: str, before: EndpointState) -> None:
        """Send clients to the cluster; close sessions to all other servers if configured.

        Raises:
            EndpointMoved: a server was changed by someone else.
            EndpointRejected: HAProxy rejected it; nothing was changed.
            EndpointFailed: it was changed in part.
            Unreachable: it could not be reached; nothing was changed.
            Unknown: no answer to the request.
        """
        must_be_of(self.endpoint, before)
        seen = _seen(before)
        self._change(_wanted(self._settings, seen, to), (seen,))

    def restore(self, before: EndpointState) -> None:
        """Restore each server, and close sessions to servers that accept no clients.

        Raises:
            EndpointMoved: a server was changed by someone else.
            EndpointRejected: HAProxy rejected it; nothing was changed.
            EndpointFailed: it was changed in part.
            Unreachable: it could not be reached; nothing was changed.
            Unknown: no answer to the request.
        """
        must_be_of(self.endpoint, before)
        seen = _seen(before)
        clusters = self._settings.servers or self._settings.addresses
        self._change(seen, [_wanted(self._settings, seen, each) for each in clusters])

    def _change(self, wanted: Servers, known: Sequence[Servers]) -> None:
        """Change servers to the wanted state; each must be in it or in a known earlier state."""
        now = self._reader.servers()
        for name, server in now.items():
            states = [self._setting(each[name]) for each in (wanted, *known) if name in each]
            if self._setting(server) not in states:
                raise EndpointMoved(
                    f"{self.endpoint} has changed since it was read: {_shown(server)}",
                    "someone else changed it; find out who, then start again or correct it by hand",
                )
        if orders := tuple(self._orders(now, wanted)):
            self._check(orders, self._api.order(*orders))

    def _orders(self, now: Servers, wanted: Servers) -> Iterator[str]:
        """Disable servers first: clients must never be sent to two clusters at once."""
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
        """The properties of a server that drctl changes."""
        return (server.address, server.port) if self._settings.addresses else server.state

    def _check(self, orders: Sequence[str], answers: Sequence[str]) -> None:
        failed = {
            order: answer
            for order, answer in zip(orders, answers, strict=True)
            if answer and not (" addr " in order and answer.startswith(_CHANGED_ADDRESS))
        }
        if not failed:
            return
        refusals = "; ".join(f"{order}: {answer}" for order, answer in failed.items())
        if "Permission denied" in refusals:
            fix = "set `level admin` on the `stats socket` in haproxy.cfg"
        else:
            fix = "check the servers of the backend, and correct what HAProxy reports"
        kind = EndpointRejected if len(failed) == len(orders) else EndpointFailed
        raise kind(f"HAProxy ({self._api.name}) refused {refusals}", fix)


def _names(settings: HaproxyEndpoint) -> tuple[str, ...]:
    groups = (settings.servers or settings.addresses).values()
    return tuple(dict.fromkeys(name for group in groups for name in group))


def _wanted(settings: HaproxyEndpoint, seen: Servers, cluster: str) -> dict[str, Server]:
    """The state of the servers after a switch to the cluster."""
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
    """The only cluster that clients are sent to; some of its servers may be disabled."""
    if settings.addresses:
        return next(
            (c for c in settings.addresses if _wanted(settings, servers, c) == servers), None
        )
    taking = {name for name, server in servers.items() if server.state == "ready"}
    found = [cluster for cluster, own in settings.servers.items() if taking & set(own)]
    return found[0] if len(found) == 1 else None


def configured_cluster(settings: HaproxyEndpoint, state: EndpointState) -> str | None:
    """The cluster to which drctl.yaml assigns the observed servers; None if there is none.

    The journal's data becomes part of commands to HAProxy, so it is validated.
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
            yield f"{_shown(found)}, not {server.state}"
        elif server.state == "maint" and found.sessions:
            yield f"{name} still has {plural(found.sessions, 'open session')}"
        elif server.state == "ready" and not found.up:
            yield f"{name} accepts no clients: its health check fails"


def _seen(state: EndpointState) -> dict[str, Server]:
    return {name: Server.from_json(name, s) for name, s in state.evidence["servers"].items()}


def _shown(server: Server) -> str:
    return f"{server.name} ({server.address}:{server.port}) is in state {server.state}"
