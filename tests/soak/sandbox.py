"""The soak's own machines: a network, small disks and clocks that faults can change.

The soak runs again inside a network and a mount namespace of its own. There, each process has the
address and the clock of the machine that it stands for (`host.c`), and packets between two
machines pass the queueing discipline of the loopback interface.
"""

import errno
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from drctl.artifacts.jars import kafka_set, resolve
from drctl.lab.settings import CLUSTERS, LabSettings, keep_settings
from drctl.model.errors import Stopped
from tests.soak.round_plan import APPLICATIONS, CONNECT, DRCTL, Way

SECOND = "drctl-2"
"""The machine of the second operator. Brokers are `primary-1` and so on; applications are in this
process."""

_INSIDE = "SOAK_SANDBOX"
_PROGRAM = Path(__file__).with_name("host.c")
_ADDRESSES = {APPLICATIONS: "127.0.0.1", DRCTL: "127.0.0.2", CONNECT: "127.0.0.3"}
_SECOND_ADDRESS = "127.0.0.4"
_DISK_MB = 192
_FILLS = 20
"""Attempts to fill a disk while the broker also writes to it."""
_LO = ("dev", "lo")
_FAST, _LOST, _SLOW = "1:1", "1:2", "1:3"
"""Classes of the loopback interface: unlimited, a queue of no packets, and a slow line."""
_QUEUE = 100


def enter() -> str:
    """Run this program again inside its namespaces; return why that is not possible.

    It returns empty inside them.
    """
    if _INSIDE in os.environ:
        return ""
    tools = ("unshare", "ip", "tc", "mount", "cc")
    if missing := [tool for tool in tools if not _found(tool)]:
        return f"missing commands: {', '.join(missing)}"
    tried = _tried(*alone(), "sh", "-c", f"{_tool('ip')} link set lo up && {_shaped()}")
    if tried.returncode:
        return f"no network of its own: {tried.stderr.strip()}"
    settings = LabSettings()
    for kind in ("kafka", "connect"):
        # Nothing can be downloaded inside.
        resolve(kafka_set(kind, settings.kafka), progress=print)
    program = (*alone(), sys.executable, "-m", "tests.soak", *sys.argv[1:])
    return os.execve(program[0], program, {**os.environ, _INSIDE: "1"})


def alone() -> tuple[str, ...]:
    """Return the words that run a command in a network and a mount namespace of its own."""
    words = (_tool("unshare"), "--net", "--mount")
    return words if os.geteuid() == 0 else (*words, "--user", "--map-root-user")


def _shaped() -> str:
    """Return the shell command that makes the classes of the loopback interface."""
    tc = f"{_tool('tc')} qdisc add dev lo"
    kinds = _tool("tc") + " class add dev lo parent 1: classid"
    return " && ".join(
        (
            f"{tc} root handle 1: htb default 1",
            f"{kinds} {_FAST} htb rate 40gbit burst 1mb cburst 1mb quantum 60000",
            f"{kinds} {_LOST} htb rate 40gbit burst 1mb cburst 1mb quantum 60000",
            f"{kinds} {_SLOW} htb rate 40gbit burst 1mb cburst 1mb quantum 60000",
            f"{tc} parent {_LOST} pfifo limit 0",
            f"{tc} parent {_SLOW} pfifo limit {_QUEUE}",
        )
    )


@dataclass(slots=True)
class Sandbox:
    """Machines of one lab.

    Attributes:
        folder: for addresses and clocks.
        root: the lab's folder.
    """

    folder: Path
    root: Path
    settings: LabSettings
    _next: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def opened(self) -> Iterator["Sandbox"]:
        """Make the machines; processes that are started in the block are on them.

        Raises:
            Stopped: a disk cannot be mounted, or `host.c` does not compile.
        """
        self.folder.mkdir(parents=True)
        library = self.folder / "host.so"
        _run("cc", "-shared", "-fPIC", "-O2", "-Wall", "-o", str(library), str(_PROGRAM))
        for name, address in self._addresses():
            (self.folder / f"{name}.address").write_text(address)
            self.shift(name, 0)
        _run("ip", "link", "set", "lo", "up")
        _run("sh", "-c", _shaped())
        # The lab accepts folders in its root only if it has settings.
        keep_settings(self.root, self.settings)
        for disk in self._disks():
            disk.mkdir(mode=0o700, parents=True)
            _run("mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m,mode=700", "tmpfs", str(disk))
        environ = {"LD_PRELOAD": str(library), "SOAK_HOSTS": str(self.folder)}
        os.environ.update(environ)
        try:
            yield self
        finally:
            for name in environ:
                del os.environ[name]
            for disk in self._disks():
                _run("umount", "--lazy", str(disk))

    def shift(self, host: str, seconds: int) -> None:
        """Set the clock of a machine this far ahead; processes notice at once."""
        file = self.folder / f"{host}.clock"
        packed = struct.pack("=q", seconds)
        if not file.exists():
            file.write_bytes(packed)
            return
        with file.open("r+b", buffering=0) as clock:
            clock.write(packed)

    def lose(self, host: str, there: str, way: Way, share: float = 1.0) -> int:
        """Lose this share of the packets between a machine and a cluster or Connect.

        Returns:
            a number for `restore`.
        """
        return self._filtered(host, there, way, _LOST, share)

    def narrow(self, host: str, there: str, kbit: int) -> int:
        """Send packets in both directions over a line of this many kbit/s."""
        rate = ("htb", "rate", f"{kbit}kbit", "ceil", f"{kbit}kbit", "quantum", "1500")
        _run("tc", "class", "change", *_LO, "parent", "1:", "classid", _SLOW, *rate)
        return self._filtered(host, there, Way.BOTH, _SLOW, 1.0)

    def restore(self, number: int) -> None:
        """Remove a fault of the network."""
        _run("tc", "filter", "del", *_LO, "parent", "1:", "prio", str(number))

    @contextmanager
    def full_disk(self, broker: str) -> Iterator[None]:
        """Leave no byte free on the disk of a broker during the block."""
        cluster, _, node = broker.rpartition("-")
        disk = self.root / cluster / node / "data"
        filler = disk / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                for _ in range(_FILLS):
                    left = os.statvfs(disk)
                    if not left.f_bavail:
                        break
                    end, size = file.seek(0, os.SEEK_END), left.f_bavail * left.f_frsize
                    try:
                        os.posix_fallocate(file.fileno(), end, size)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
            yield
        finally:
            filler.unlink(missing_ok=True)

    def _addresses(self) -> Iterator[tuple[str, str]]:
        yield from _ADDRESSES.items()
        yield SECOND, _SECOND_ADDRESS
        for number, cluster in enumerate(CLUSTERS, 1):
            for node in self.settings.nodes:
                yield f"{cluster}-{node}", f"127.0.{number}.{node}"

    def _disks(self) -> Iterator[Path]:
        for cluster in CLUSTERS:
            for node in self.settings.nodes:
                yield self.root / cluster / str(node) / "data"

    def _filtered(self, host: str, there: str, way: Way, into: str, share: float) -> int:
        ports = self._ports(there)
        address = int(ip_address(_ADDRESSES[host]))
        with self._lock:
            number, self._next = self._next, self._next + 1
        for each in (Way.TO, Way.BACK) if way is Way.BOTH else (way,):
            program = bytecode(address, ports, each, share)
            where = ("parent", "1:", "protocol", "ip", "prio", str(number))
            _run("tc", "filter", "add", *_LO, *where, "bpf", "bytecode", program, "classid", into)
        return number

    def _ports(self, there: str) -> tuple[int, ...]:
        if there == CONNECT:
            return (self.settings.connect_port,)
        return tuple(self.settings.broker_port(there, node) for node in self.settings.nodes)


def bytecode(address: int, ports: Sequence[int], way: Way, share: float) -> str:
    """Return a program of the Berkeley packet filter that selects this share of the packets.

    Args:
        way: `TO` selects packets from the address to the ports, `BACK` the answers.
    """
    here, port = (26, 36) if way is Way.TO else (30, 34)
    word, half, byte = 0x20, 0x28, 0x30
    equal, greater, result = 0x15, 0x25, 0x06
    random = 0xFFFFF038  # the kernel's extension SKF_AD_RANDOM
    after = len(ports)
    lines = [
        (byte, 0, 0, 23),
        (equal, 0, after + 6, 6),  # TCP
        (word, 0, 0, here),
        (equal, 0, after + 4, address),
        (half, 0, 0, port),
        *((equal, after - n, 0 if n < after else 3, each) for n, each in enumerate(ports, 1)),
        (word, 0, 0, random),
        (greater, 1, 0, min(int(share * (1 << 32)), (1 << 32) - 1)),
        (result, 0, 0, 0xFFFFFFFF),
        (result, 0, 0, 0),
    ]
    return f"{len(lines)}," + ",".join(" ".join(map(str, line)) for line in lines)


def _found(tool: str) -> str | None:
    return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def _tool(name: str) -> str:
    return _found(name) or name


def _tried(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _run(tool: str, *words: str) -> None:
    done = _tried(_tool(tool), *words)
    if done.returncode:
        raise Stopped(f"{tool} {' '.join(words)} failed: {done.stderr.strip()}")
