"""The servers of a backend as HAProxy's runtime API tells them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Bits of srv_admin_state (see `show servers state` in HAProxy's management guide).
_MAINTENANCE = 0x01 | 0x02 | 0x20
_DRAIN = 0x08 | 0x10
_RUNNING = (1, 2)


@dataclass(frozen=True, slots=True)
class Server:
    """One server of a backend.

    Attributes:
        state: `ready`, `drain` or `maint`, as `set server ... state` takes it.
        up: whether its health checks, if it has any, let it take clients.
        sessions: open ones.
    """

    name: str
    address: str
    port: int
    state: str
    up: bool
    sessions: int

    def to_json(self) -> dict[str, Any]:
        """For the evidence of an `EndpointState`."""
        return {
            "address": self.address,
            "port": self.port,
            "state": self.state,
            "up": self.up,
            "sessions": self.sessions,
        }

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> "Server":
        """From what `to_json` made."""
        return cls(name, data["address"], data["port"], data["state"], data["up"], data["sessions"])


def servers_of(states: str, statistics: str, backend: str) -> dict[str, Server]:
    """By name, from the answers to `show servers state` and `show stat`.

    Raises:
        ValueError: an answer has not the form that HAProxy documents.
    """
    lines = [line.removeprefix("# ") for line in states.splitlines()[1:]]
    rows = list(csv.DictReader(lines, delimiter=" "))
    sessions = _sessions(statistics, backend)
    return {row["srv_name"]: _server(row, sessions) for row in rows}


def _server(row: Mapping[str, str], sessions: Mapping[str, int]) -> Server:
    admin, name = int(row["srv_admin_state"]), row["srv_name"]
    state = "maint" if admin & _MAINTENANCE else "drain" if admin & _DRAIN else "ready"
    return Server(
        name=name,
        address=row["srv_addr"],
        port=int(row["srv_port"]),
        state=state,
        up=int(row["srv_op_state"]) in _RUNNING,
        sessions=sessions.get(name, 0),
    )


def _sessions(statistics: str, backend: str) -> dict[str, int]:
    rows = csv.DictReader(statistics.removeprefix("# ").splitlines())
    return {row["svname"]: int(row["scur"] or 0) for row in rows if row["pxname"] == backend}
