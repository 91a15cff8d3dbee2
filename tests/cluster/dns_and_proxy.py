"""Endpoints before both clusters of the lab: a name in a real BIND, and a real HAProxy."""

import json
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.message
import dns.query
import dns.rdatatype
import dns.tsig
import dns.update

from tests.cluster import fence_program
from tests.endpoints import bind_server
from tests.endpoints.bind_server import KEY, Named
from tests.endpoints.proxy import Brokers, Proxy, proxy
from tests.lab.cluster_under_test import ClusterUnderTest

_SERVERS = {"primary": ["p1", "p2"], "secondary": ["s1", "s2"]}
_HERE = "127.0.0.1"


@dataclass(frozen=True)
class Front:
    """The name has SRV records, which contain ports: the lab's brokers differ only in these.

    Attributes:
        ports: port of each cluster.
        key: file with the secret of the TSIG key.
    """

    server: Named
    record: str
    proxy: Proxy
    ports: dict[str, int]
    key: Path

    @property
    def endpoints(self) -> list[dict[str, Any]]:
        """Return both sections of drctl.yaml."""
        return [
            {
                "kind": "dns",
                "server": _HERE,
                "port": self.server.port,
                "zone": self.server.zone,
                "record": self.record,
                "type": "SRV",
                "ttl": 1,
                "clusters": {name: _srv(port) for name, port in self.ports.items()},
                "tsig": {"name": KEY, "secret": f"${{file:{self.key}}}"},
            },
            {
                "kind": "haproxy",
                "socket": str(self.proxy.folder / "admin"),
                "backend": "kafka",
                "servers": _SERVERS,
            },
        ]

    @property
    def through_proxy(self) -> str:
        """The bootstrap servers of clients that use the proxy."""
        return f"{_HERE}:{self.proxy.clusters}"

    @property
    def by_name(self) -> str:
        """Return the bootstrap servers of clients that resolve the name now."""
        (found,) = self._answer(self.record, "SRV")
        port, host = found.split()[2:]
        return f"{host.rstrip('.')}:{port}"

    @property
    def serial(self) -> str:
        """Return the zone's serial number; every update changes it."""
        (soa,) = self._answer(self.server.zone, "SOA")
        return soa.split()[2]

    @property
    def states(self) -> dict[str, str]:
        """Return the states of the proxy's servers as HAProxy prints them."""
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(str(self.proxy.folder / "operator"))
            stream.sendall(b"show stat\n")
            rows = [line.split(",") for line in stream.makefile().read().splitlines()]
        column = rows[0].index("status")
        known = {name for names in _SERVERS.values() for name in names}
        return {row[1]: row[column] for row in rows[1:] if row[0] == "kafka" and row[1] in known}

    def _answer(self, name: str, kind: str) -> list[str]:
        query = dns.message.make_query(name, kind)
        answer = dns.query.udp(query, _HERE, port=self.server.port, timeout=10)
        wanted = dns.rdatatype.from_text(kind)
        return [r.to_text() for rrset in answer.answer if rrset.rdtype == wanted for r in rrset]


@contextmanager
def front(folder: Path, primary: ClusterUnderTest, secondary: ClusterUnderTest) -> Iterator[Front]:
    """Start both; they direct clients to the primary at first."""
    ports = {each.name: _port(each) for each in (primary, secondary)}
    places = {name: ports[cluster] for cluster, names in _SERVERS.items() for name in names}
    server = bind_server.primary(_made(folder / "named"))
    try:
        opened = proxy(folder, Brokers(places))
        try:
            key = folder / "tsig"
            key.touch(mode=0o600)
            key.write_text(server.secret, encoding="ascii")
            made = Front(server, server.record(), opened, ports, key)
            _point(made, _srv(ports[primary.name]))
            yield made
        finally:
            opened.program.end()
            shutil.rmtree(opened.folder)
    finally:
        server.program.end()


def fence_of(
    cluster: ClusterUnderTest, topic: str, user: str, file: Path
) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return the user-supplied fence command, and its section of drctl.yaml."""
    file.touch(mode=0o600)
    given = {"properties": cluster.properties(), "topic": topic, "user": user}
    file.write_text(json.dumps(given), encoding="utf-8")
    fence = sys.executable, str(Path(fence_program.__file__))
    words = {"command": "set", "undo": "lift", "verify": "shown"}
    lines = {key: [*fence, word, str(file)] for key, word in words.items()}
    return fence, {"method": "command", **lines}


def _point(made: Front, data: str) -> None:
    """Set the initial record, as an administrator would."""
    update = dns.update.UpdateMessage(made.server.zone)
    update.use_tsig(dns.tsig.Key(KEY, made.server.secret, "hmac-sha256"))
    update.replace(made.record, 1, "SRV", data)
    answer = dns.query.tcp(update, _HERE, port=made.server.port, timeout=10)
    assert answer.rcode() == 0, answer


def _srv(port: int) -> str:
    return f"0 0 {port} localhost."


def _port(cluster: ClusterUnderTest) -> int:
    return int(cluster.bootstrap.rpartition(":")[2])


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
