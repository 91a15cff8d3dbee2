"""What must be so before a lab starts anything: free ports, enough memory."""

import socket
from collections.abc import Collection
from random import Random

import psutil

from drctl.lab.settings import HOST, LabSettings
from drctl.model.errors import Refused

_OUTSIDE_HEAP_MB = 150


class PortTaken(Refused):
    """Another program listens where a part of the lab should."""


class TooLittleMemory(Refused):
    """The machine has not enough free memory for the lab."""


def require_ports(ports: Collection[int]) -> None:
    """See that nobody listens there.

    Raises:
        PortTaken: somebody does; who it is where the system tells.
    """
    for port in sorted(ports):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                raise PortTaken(
                    f"port {port} of {HOST} is taken by {_owner(port)} ({error.strerror})",
                    f"End that program, or choose other ports: drctl lab up --port-base "
                    f"{port + 1000 - port % 1000}",
                ) from error


def free_port_base(random: Random, first: int = 20000, last: int = 30000) -> int:
    """A port base whose hundred ports are all free now, chosen at random.

    No other process is given the same one as long as this one lives: a lab takes its ports seconds
    later.

    Raises:
        PortTaken: there is none between the two.
    """
    for base in random.sample(range(first, last, 100), (last - first) // 100):
        try:
            require_ports(range(base, base + 100))
        except PortTaken:
            continue
        if _claimed(base + 99):
            return base
    raise PortTaken(f"no hundred ports in a row are free between {first} and {last}")


def _claimed(port: int) -> bool:
    """Whether nobody was faster; kept until the process ends."""
    claim = socket.socket()
    try:
        claim.bind((HOST, port))
        claim.listen()
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def require_memory(settings: LabSettings, parts: int) -> None:
    """See that the parts that are to start have room.

    Raises:
        TooLittleMemory: they have not.
    """
    needed = parts * (settings.heap_mb + _OUTSIDE_HEAP_MB)
    available = psutil.virtual_memory().available >> 20
    if available < needed:
        raise TooLittleMemory(
            f"{parts} parts of the lab need about {needed} MB of memory; {available} MB are free",
            "End other programs, or choose smaller heaps: drctl lab up --heap-mb 256",
        )


def _owner(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr[1] == port and connection.pid:
                return f"pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return "another program"
    return "another program"
