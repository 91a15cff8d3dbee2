"""How clients find their cluster: a name in a real BIND server, and a real HAProxy."""

import base64
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import dns.message
import dns.query
import dns.tsig
import dns.update

from tests.clients.brokers import BEHIND_PROXY, PORT, TAKEN_ALONG
from tests.endpoints.configured_endpoints import Endpoint, endpoint
from tests.endpoints.programs import Program, found, start

ZONE = "dr.test."
RECORD = f"kafka.{ZONE}"
BOOTSTRAP = f"{RECORD.removesuffix('.')}:{PORT}"
TTL_S = 1
_KEY = "drctl-key."

_NAMED = """
options {{
  directory "{folder}";
  listen-on port 53 {{ {address}; }};
  listen-on-v6 {{ none; }};
  pid-file none; lock-file none; session-keyfile none;
  recursion no; dnssec-validation no; notify no; empty-zones-enable no;
}};
controls {{ }};
key "{key}" {{ algorithm hmac-sha256; secret "{secret}"; }};
zone "{zone}" {{
  type primary; file "zone";
  update-policy {{ grant {key} name {record} A; }};
}};
"""
_ZONE = f"""$TTL {TTL_S}
@ IN SOA ns root 1 3600 600 86400 {TTL_S}
@ IN NS ns
"""
_HAPROXY = """
global
  stats socket {folder}/admin mode 600 level admin
defaults
  mode tcp
  timeout connect 2s
  timeout client 10m
  timeout server 10m
frontend clients
  bind {proxy}:{port}
  default_backend kafka
backend kafka
  server a {primary}:{behind}
  server b {secondary}:{behind} disabled
"""


@dataclass(frozen=True)
class Name:
    """A DNS name that drctl switches."""

    program: Program
    server: str
    secret: str
    addresses: dict[str, str]

    def opened(self, folder: Path) -> Endpoint:
        """Open it as drctl does."""
        settings = {
            "kind": "dns",
            "server": self.server,
            "zone": ZONE,
            "record": RECORD,
            "ttl": TTL_S,
            "clusters": self.addresses,
            "tsig": {"name": _KEY, "secret": "${env:TSIG}"},
        }
        return endpoint(settings, folder, {"TSIG": self.secret})

    def point(self, cluster: str) -> None:
        """Set the initial record, as an administrator would."""
        update = dns.update.UpdateMessage(ZONE)
        update.use_tsig(dns.tsig.Key(_KEY, self.secret, "hmac-sha256"))
        update.replace(RECORD, TTL_S, "A", self.addresses[cluster])
        answer = dns.query.tcp(update, self.server, timeout=10)
        assert answer.rcode() == 0, answer


def name_server(folder: Path, address: str, addresses: dict[str, str]) -> Name:
    """Start a BIND server on port 53, where resolvers ask."""
    secret = base64.b64encode(secrets.token_bytes(32)).decode()
    (folder / "zone").write_text(_ZONE + f"ns IN A {address}\n")
    config = folder / "named.conf"
    config.write_text(
        _NAMED.format(
            folder=folder, address=address, key=_KEY, secret=secret, zone=ZONE, record=RECORD
        )
    )
    argv = [*TAKEN_ALONG, found("named"), "-g", "-n", "1", "-c", str(config)]

    def answers() -> bool:
        query = dns.message.make_query(ZONE, "SOA")
        try:
            return bool(dns.query.tcp(query, address, timeout=1).answer)
        except (OSError, EOFError):
            return False

    return Name(start(argv, folder / "named.log", answers), address, secret, addresses)


@dataclass(frozen=True)
class Proxy:
    """A proxy whose servers drctl switches."""

    program: Program
    folder: Path

    def opened(self) -> Endpoint:
        """Open it as drctl does."""
        servers = {"primary": "a", "secondary": "b"}
        settings = {"kind": "haproxy", "socket": "admin", "backend": "kafka", "servers": servers}
        return endpoint(settings, self.folder)


def proxy(log: Path, folder: Path, address: str, addresses: dict[str, str]) -> Proxy:
    """Start a HAProxy that forwards to the primary.

    Args:
        folder: must have a short name, because the path of a socket is limited.
    """
    config = folder / "haproxy.cfg"
    config.write_text(
        _HAPROXY.format(folder=folder, proxy=address, port=PORT, behind=BEHIND_PROXY, **addresses)
    )
    argv = [*TAKEN_ALONG, found("haproxy"), "-f", str(config)]

    def listens() -> bool:
        try:
            socket.create_connection((address, PORT), 1).close()
        except OSError:
            return False
        return True

    return Proxy(start(argv, log, listens), folder)
