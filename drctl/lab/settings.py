"""Settings of a lab: its shape, ports and passwords."""

import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from drctl.artifacts.jars import KAFKA, OLDER_KAFKAS
from drctl.model.errors import Refused, UsageError


def private_folder(path: Path) -> Path:
    """Create a folder (and its parents) with mode 0700."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically; it is never readable by other users."""
    private_folder(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    """Write a Java properties file."""
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n"})
    lines = (f"{name}={str(value).translate(escapes)}\n" for name, value in properties.items())
    write_private(path, "".join(lines))


CLUSTERS = ("primary", "secondary")
HOST = "127.0.0.1"
OLDEST = (3, 7, 0)
"""Oldest Kafka release that a lab can run: its Connect can read and set source offsets."""
Policy = Literal["identity", "default"]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@dataclass(frozen=True, slots=True)
class LabSettings:
    """Settings of a lab, fixed by the first `lab up`.

    Attributes:
        port_base: first of the lab's 100 ports.
        brokers: number of brokers per cluster.
        policy: how MirrorMaker 2 names topics on the target: unchanged, or `primary.NAME`.
        active_active: whether the secondary is also replicated to the primary.
        mirrored: prefix of the topics that MirrorMaker 2 replicates and the application uses.
        heap_mb: Java heap of each broker and of Connect.
        full_speed: enable Java's optimizing compiler; starts take seconds longer.
        kafka: release of the primary's brokers, and of everything else unless stated.
        secondary_kafka: release of the secondary's brokers and of Connect; empty: like `kafka`.
        racks: whether each broker is in a rack of its own.
        workers: number of Connect workers, which form one group.
    """

    port_base: int = 19000
    brokers: int = 1
    policy: Policy = "identity"
    active_active: bool = False
    mirrored: str = "flights"
    heap_mb: int = 512
    full_speed: bool = False
    kafka: str = KAFKA
    secondary_kafka: str = ""
    racks: bool = False
    workers: int = 1

    def __post_init__(self) -> None:
        """Validate the settings.

        Raises:
            UsageError: a value is out of range, or two values conflict.
        """
        if self.brokers not in (1, 3):
            raise UsageError(f"invalid --brokers {self.brokers}", "use 1 or 3")
        if self.workers not in (1, 2, 3):
            raise UsageError(f"invalid --workers {self.workers}", "use 1, 2 or 3")
        if not 1024 <= self.port_base <= 65435:
            raise UsageError(f"invalid --port-base {self.port_base}", "use 1024 to 65435")
        for option, version in (
            ("--kafka", self.kafka),
            ("--secondary-kafka", self.secondary_kafka or self.kafka),
        ):
            if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _numbers(version) < OLDEST:
                raise UsageError(
                    f"invalid release {option} {version}",
                    f"use a release from {'.'.join(map(str, OLDEST))} on, with three numbers; "
                    f"tested: {', '.join((*OLDER_KAFKAS, KAFKA))}",
                )
        if self.active_active and self.policy == "identity":
            raise UsageError(
                "--active-active with --replication-policy identity would replicate records in an"
                " endless loop",
                "add --replication-policy default: copies are then named primary.NAME and"
                " secondary.NAME",
            )

    def release(self, cluster: str) -> str:
        """Kafka release of a cluster's brokers; Connect has the secondary's."""
        return self.secondary_kafka or self.kafka if cluster == "secondary" else self.kafka

    @property
    def replication(self) -> int:
        """Replication factor of every topic."""
        return self.brokers

    def broker_port(self, cluster: str, node: int) -> int:
        """Client port of a broker (SASL_PLAINTEXT)."""
        return self._port(cluster, 10, node)

    def controller_port(self, cluster: str, node: int) -> int:
        """Port of a KRaft controller."""
        return self._port(cluster, 20, node)

    @property
    def connect_port(self) -> int:
        """Port of the first Connect worker's REST interface; the others have the next ports."""
        return self.port_base + 83

    def bootstrap(self, cluster: str) -> str:
        """Bootstrap servers of a cluster."""
        ports = (self.broker_port(cluster, node) for node in self.nodes)
        return ",".join(f"{HOST}:{port}" for port in ports)

    @property
    def nodes(self) -> range:
        """Node ids of each cluster."""
        return range(1, self.brokers + 1)

    def _port(self, cluster: str, kind: int, node: int) -> int:
        return self.port_base + kind + 40 * CLUSTERS.index(cluster) + node


def default_root() -> Path:
    """The default folder of the lab."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "drctl" / "lab"


def stored_settings(root: Path) -> LabSettings | None:
    """Read the settings of the lab in this folder; None if there is no lab."""
    try:
        return LabSettings(**json.loads((root / "lab.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise Refused(
            f"{root / 'lab.json'} is not a lab of this version of drctl: {error}",
            f"remove the lab: drctl lab down --dir {root}",
        ) from error


def changed_settings(root: Path, given: Mapping[str, Any]) -> LabSettings:
    """The stored or default settings, overridden by the given values that are not None.

    Raises:
        UsageError: a value is out of range, or two values conflict.
    """
    base = stored_settings(root) or LabSettings()
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def keep_settings(root: Path, wanted: LabSettings) -> None:
    """Store the settings of the lab."""
    write_private(root / "lab.json", json.dumps(asdict(wanted), indent=2) + "\n")


def require_same(root: Path, stored: LabSettings, wanted: LabSettings) -> None:
    """Require the settings of an existing lab to be unchanged.

    Raises:
        Refused: the lab in this folder has other settings.
    """
    if stored != wanted:
        was, now = asdict(stored), asdict(wanted)
        differing = ", ".join(f"{k} {was[k]}, not {now[k]}" for k in was if was[k] != now[k])
        raise Refused(
            f"the lab in {root} has {differing}",
            "run drctl lab up without options, or drctl lab down first",
        )


USERS = ("admin", "replicator", "orders-app")
BROKER = "broker"
"""The user that the brokers log in as."""
FIRST = "keep-users-lyzutqr"
"""A user without rights that is never deleted: a workaround for KAFKA-20774 (seen on 4.3.1).

A starting broker reads all changes of SCRAM users since the last snapshot into a map by name. If a
deletion leaves a user without credentials, all users after it in the map are lost. Java's hash of
this name is 0, so that it comes first.
"""


@dataclass(frozen=True, slots=True)
class Secrets:
    """The password files of one lab."""

    folder: Path

    def file(self, cluster: str, user: str) -> Path:
        """The file that holds nothing but the password."""
        return self.folder / f"{cluster}-{user}"

    def password(self, cluster: str, user: str) -> str:
        """Read the password."""
        return self.file(cluster, user).read_text(encoding="ascii")

    def create(self) -> None:
        """Create the missing password files."""
        private_folder(self.folder)
        for cluster in CLUSTERS:
            for user in (*USERS, BROKER):
                if not self.file(cluster, user).exists():
                    write_private(self.file(cluster, user), secrets.token_hex(16))


def scram_login(user: str, password: str) -> str:
    """A Java client's `sasl.jaas.config` for SCRAM."""
    return _login("scram.ScramLoginModule", f'username="{user}" password="{password}"')


def plain_login(user: str, password: str, known: dict[str, str]) -> str:
    """A broker's `sasl.jaas.config` for PLAIN: its own user, and the users it knows."""
    users = " ".join(f'user_{name}="{word}"' for name, word in known.items())
    return _login("plain.PlainLoginModule", f'username="{user}" password="{password}" {users}')


def _login(module: str, options: str) -> str:
    return f"org.apache.kafka.common.security.{module} required {options};"
