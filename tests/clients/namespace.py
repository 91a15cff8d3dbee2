"""A network namespace for clients with its own resolver: they see what its DNS server says.

A pair of virtual interfaces connects it to this host, which has one address there for each
server. These addresses exist nowhere else, and are removed with the namespace.
"""

import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.endpoints.programs import found

_PREFIX = "drctl-clients-"
CONFIGURED = Path("/etc/netns")
NAMED = Path("/run/netns")
# 198.18.0.0/15 is for tests of networks (RFC 2544): nobody's real addresses.
_NETWORK = "198.18.{number}.{host}"
_INSIDE = 10
_RESOLVER = 3


def obstacle() -> str | None:
    """Return why namespaces cannot be used here; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"):
        return "the command `ip` is missing: run scripts/ensure-endpoints"
    probe = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(3)}"
    try:
        _ip("netns", "add", probe)
    except subprocess.CalledProcessError as error:
        return f"no network namespace can be made here: {error.stderr.strip()}"
    _ip("netns", "delete", probe)
    return None


@dataclass(frozen=True)
class Namespace:
    """A namespace that exists until `remove`.

    Attributes:
        number: number of its network.
        interface: its interface inside the namespace.
    """

    name: str
    number: int
    interface: str = "clients"

    def address(self, host: int) -> str:
        """Return one of this host's addresses as seen from the namespace."""
        return _NETWORK.format(number=self.number, host=host)

    @property
    def resolver(self) -> str:
        """The address where its DNS server must listen."""
        return self.address(_RESOLVER)

    def inside(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs `argv` there, in the same process."""
        return [found("ip"), "netns", "exec", self.name, *argv]

    def lose(self, address: str) -> None:
        """Drop all packets to this address silently."""
        nobody = ("lladdr", "02:00:00:00:00:01", "nud", "permanent")
        _ip("-n", self.name, "neighbour", "replace", address, *nobody, "dev", self.interface)

    def find(self, address: str) -> None:
        """Deliver packets to this address again."""
        _ip("-n", self.name, "neighbour", "delete", address, "dev", self.interface)

    def remove(self) -> None:
        """End its processes and remove it with its network."""
        _remove(self.name)


def create(hosts: int) -> Namespace:
    """Create a namespace with this many host addresses; remove those of ended tests."""
    _sweep()
    name = f"{_PREFIX}{os.getpid()}-{secrets.token_hex(3)}"
    made = Namespace(name, _free_number())
    try:
        _ip("netns", "add", name)
        _join(made, hosts)
        folder = CONFIGURED / name
        folder.mkdir(parents=True)
        text = f"nameserver {made.resolver}\noptions timeout:1 attempts:2\n"
        (folder / "resolv.conf").write_text(text)
    except BaseException:
        _remove(name)
        raise
    return made


def _join(namespace: Namespace, hosts: int) -> None:
    # The kernel takes at most 15 characters for an interface's name.
    here, there = f"drctl{secrets.token_hex(4)}", namespace.interface
    inner = ("-n", namespace.name)
    _ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", namespace.name)
    for host in range(1, hosts + 1):
        _ip("address", "add", f"{namespace.address(host)}/24", "dev", here)
    _ip("link", "set", here, "up")
    _ip(*inner, "address", "add", f"{namespace.address(_INSIDE)}/24", "dev", there)
    _ip(*inner, "link", "set", there, "up")
    _ip(*inner, "link", "set", "lo", "up")


def _free_number() -> int:
    """Return the number of a network that this host does not use."""
    taken = _ip("-o", "address")
    numbers = [n for n in range(1, 255) if _NETWORK.format(number=n, host="") not in taken]
    return secrets.choice(numbers)


def _sweep() -> None:
    """Remove the namespaces of test processes that no longer run."""
    names = {path.name for folder in (NAMED, CONFIGURED) for path in _children(folder)}
    for name in names:
        owner = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and owner.isdigit() and not psutil.pid_exists(int(owner)):
            _remove(name)


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _remove(name: str) -> None:
    if (NAMED / name).exists():
        for pid in _ip("netns", "pids", name).split():
            _kill(int(pid))
        _ip("netns", "delete", name)
    shutil.rmtree(CONFIGURED / name, ignore_errors=True)


def _kill(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        process.kill()
        process.wait(10)
    except psutil.NoSuchProcess:
        pass


def _ip(*words: str) -> str:
    command = [found("ip"), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
