"""The passwords of a lab: random, one file each, never in a command line."""

import secrets
from dataclasses import dataclass
from pathlib import Path

from drctl.lab.files import private_folder, write_private
from drctl.lab.settings import CLUSTERS

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
