"""What a lab is made of, and where its parts listen."""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from drctl.model.errors import Refused, UsageError


def private_folder(path: Path) -> Path:
    """Make a folder (and its parents) that only its owner may enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Replace a file at once; at no moment may anybody else read it."""
    private_folder(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    """A Java properties file."""
    escapes = str.maketrans({"\\": "\\\\", "\n": "\\n"})
    lines = (f"{name}={str(value).translate(escapes)}\n" for name, value in properties.items())
    write_private(path, "".join(lines))


CLUSTERS = ("primary", "secondary")
HOST = "127.0.0.1"
Policy = Literal["identity", "default"]


@dataclass(frozen=True, slots=True)
class LabSettings:
    """Chosen once, by the first `lab up`.

    Attributes:
        port_base: all ports of the lab are this number plus something below 100.
        brokers: of each cluster.
        policy: how MirrorMaker 2 names topics on the target: as they are, or `primary.NAME`.
        active_active: whether the secondary is copied to the primary, too.
        mirrored: prefix of the topics that MirrorMaker 2 copies and the application may use.
        heap_mb: of each broker and of Connect.
        full_speed: whether Java compiles thoroughly; costs seconds at the start.
    """

    port_base: int = 19000
    brokers: int = 1
    policy: Policy = "identity"
    active_active: bool = False
    mirrored: str = "flights"
    heap_mb: int = 512
    full_speed: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work.

        Raises:
            UsageError: a value is out of range, or two do not go together.
        """
        if self.brokers not in (1, 3):
            raise UsageError(f"--brokers {self.brokers} is not possible", "Choose 1 or 3.")
        if not 1024 <= self.port_base <= 65435:
            raise UsageError(
                f"--port-base {self.port_base} is not possible", "Choose 1024 to 65435."
            )
        if self.active_active and self.policy == "identity":
            raise UsageError(
                "--active-active with --policy identity would copy every record round for ever: "
                "each direction takes the other's copies for new records",
                "Add --policy default: copies are called primary.NAME and secondary.NAME then.",
            )

    @property
    def replication(self) -> int:
        """Replicas of every topic."""
        return self.brokers

    def broker_port(self, cluster: str, node: int) -> int:
        """Where clients of a broker connect (SASL_PLAINTEXT)."""
        return self._port(cluster, 10, node)

    def controller_port(self, cluster: str, node: int) -> int:
        """Where the KRaft controllers talk."""
        return self._port(cluster, 20, node)

    @property
    def connect_port(self) -> int:
        """Where Connect's REST interface listens."""
        return self.port_base + 83

    def bootstrap(self, cluster: str) -> str:
        """All brokers of a cluster."""
        ports = (self.broker_port(cluster, node) for node in self.nodes)
        return ",".join(f"{HOST}:{port}" for port in ports)

    @property
    def nodes(self) -> range:
        """Node ids of each cluster."""
        return range(1, self.brokers + 1)

    def _port(self, cluster: str, kind: int, node: int) -> int:
        return self.port_base + kind + 40 * CLUSTERS.index(cluster) + node


def default_root() -> Path:
    """Where the lab is kept unless told otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "drctl" / "lab"


def stored_settings(root: Path) -> LabSettings | None:
    """The settings of the lab in this folder; None where there is none."""
    try:
        return LabSettings(**json.loads((root / "lab.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise Refused(
            f"{root / 'lab.json'} does not describe a lab of this drctl: {error}",
            f"Remove the lab: drctl lab down --dir {root}",
        ) from error


def changed_settings(root: Path, given: Mapping[str, Any]) -> LabSettings:
    """The stored settings, or the usual ones, with what was given (and is not None) instead.

    Raises:
        UsageError: they do not go together.
    """
    base = stored_settings(root) or LabSettings()
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def keep_settings(root: Path, wanted: LabSettings) -> None:
    """Remember them for the next drctl that opens the lab."""
    write_private(root / "lab.json", json.dumps(asdict(wanted), indent=2) + "\n")


def require_same(root: Path, stored: LabSettings, wanted: LabSettings) -> None:
    """Do not turn an existing lab into another one.

    Raises:
        Refused: the lab in this folder was made with other settings.
    """
    if stored != wanted:
        was, now = asdict(stored), asdict(wanted)
        differing = ", ".join(f"{k} {was[k]}, not {now[k]}" for k in was if was[k] != now[k])
        raise Refused(
            f"the lab in {root} has {differing}",
            "Run drctl lab up without options to go on with it, or drctl lab down first.",
        )


USERS = ("admin", "replicator", "orders-app")
BROKER = "broker"
"""The brokers' own user; nobody else has it."""
FIRST = "keep-users-lyzutqr"
"""A user who may do nothing, and whom nobody deletes: the others outlive a restart by it.

A broker that starts reads all changes of SCRAM users since the last snapshot into one map by
name. Where a deletion leaves it with nobody, all who come behind in that map are lost
(KAFKA-20774, seen on 4.3.1). Java's hash of this name is 0: in a map that got it first, it is
the first.
"""


@dataclass(frozen=True, slots=True)
class Secrets:
    """Password files of one lab."""

    folder: Path

    def file(self, cluster: str, user: str) -> Path:
        """The file that holds nothing but the password."""
        return self.folder / f"{cluster}-{user}"

    def password(self, cluster: str, user: str) -> str:
        """The password itself."""
        return self.file(cluster, user).read_text(encoding="ascii")

    def create(self) -> None:
        """Write those that do not exist yet."""
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
