"""A BIND server on a free loopback port."""

import base64
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import dns.exception
import dns.message
import dns.query

from tests.endpoints.programs import DidNotStart, Program, found, start

KEY, WEAK_KEY = "drctl-key.", "other-key."
_ATTEMPTS = 5

_OPTIONS = """
options {{
  directory "{folder}";
  listen-on port {port} {{ 127.0.0.1; }};
  listen-on-v6 {{ none; }};
  pid-file none; lock-file none; session-keyfile none;
  dnssec-validation no; notify no; empty-zones-enable no;
  {more}
}};
controls {{ }};
"""
_ZONES = """
key "{key}" {{ algorithm hmac-sha256; secret "{secret}"; }};
key "{weak}" {{ algorithm hmac-sha256; secret "{secret}"; }};
zone "{zone}" {{
  type primary; file "zone";
  update-policy {{ grant {key} wildcard *.{zone} A AAAA CNAME SRV; }};
}};
zone "closed.{zone}" {{
  type primary; file "closed"; allow-query {{ key "{key}"; }};
  update-policy {{ grant {key} zonesub ANY; }};
}};
"""
_FORWARDED = (
    'zone "{zone}" {{ type forward; forward only; forwarders port {port} {{ 127.0.0.1; }}; }};'
)
# TTL of the zone's own records, and for how long caches may remember that something is not there.
NEGATIVE_TTL = 3
_ZONE = f"""$TTL 60
@ IN SOA ns.invalid. root.invalid. 1 3600 600 86400 {NEGATIVE_TTL}
@ IN NS ns.invalid.
"""


@dataclass(frozen=True)
class Named:
    """A running name server.

    Attributes:
        zone: has a random name, so that no other server answers for it.
        secret: secret of `KEY` and of `WEAK_KEY`, which may read but not update.
    """

    program: Program
    port: int
    zone: str
    secret: str

    def record(self) -> str:
        """Return an unused name for a test."""
        return f"k{secrets.token_hex(4)}.{self.zone}"


def primary(folder: Path) -> Named:
    """Start the primary server of a zone that accepts updates."""
    zone = f"z{secrets.token_hex(4)}.test."
    text = base64.b64encode(secrets.token_bytes(32)).decode()
    for name in ("zone", "closed"):
        (folder / name).write_text(_ZONE)
    zones = _ZONES.format(key=KEY, weak=WEAK_KEY, secret=text, zone=zone)
    program, port = _started(folder, zone, "recursion no;", zones)
    return Named(program, port, zone, text)


def resolver(folder: Path, of: Named) -> Named:
    """Start a caching resolver that asks the given server for its zone."""
    more = "recursion yes; allow-recursion { 127.0.0.1; };"
    zones = _FORWARDED.format(zone=of.zone, port=of.port)
    program, port = _started(folder, of.zone, more, zones)
    return Named(program, port, of.zone, "")


def _started(folder: Path, zone: str, more: str, zones: str) -> tuple[Program, int]:
    """Start on a free port, with retries: others may take the port first."""
    for attempt in range(_ATTEMPTS):
        port = _free_port()
        config = folder / "named.conf"
        config.write_text(_OPTIONS.format(folder=folder, port=port, more=more) + zones)
        argv = [found("named"), "-g", "-n", "1", "-c", str(config)]
        try:
            return start(argv, folder / "log", lambda port=port: _knows(zone, port)), port
        except DidNotStart:
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError


def _knows(zone: str, port: int) -> bool:
    query = dns.message.make_query(zone, "SOA")
    try:
        answer = dns.query.tcp(query, "127.0.0.1", timeout=1, port=port)
    except (dns.exception.DNSException, OSError, EOFError):
        return False
    return bool(answer.answer)


def _free_port() -> int:
    """Return a port that is free for TCP and UDP."""
    for _ in range(100):
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            stream.bind(("127.0.0.1", 0))
            port = int(stream.getsockname()[1])
            try:
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
