"""A PostgreSQL server for one test."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from drctl.model.source_connectors import POSTGRES
from tests.connect.workers import JSON

USER, PASSWORD = "debezium", "capture"
_SERVER = "postgres"
"""PostgreSQL refuses to run as root: if the test does, the server runs as this user of Debian's
package."""


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, which Debian keeps out of PATH."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin"), Path(shutil.which("initdb") or "").parent]
    here = next((folder for folder in found if (folder / "initdb").is_file()), None)
    assert here, "PostgreSQL is missing: run scripts/ensure-endpoints"
    return here


@dataclass(frozen=True)
class Postgres:
    """A server with one database and logical decoding.

    Attributes:
        folder: its data and its socket.
    """

    folder: Path
    port: int

    def sql(self, *statements: str) -> str:
        """Run statements as superuser, each in a transaction of its own; return their output."""
        words = [w for text in statements for w in ("-c", text)]
        socket = ("-h", str(self.folder), "-p", str(self.port), "-U", _SERVER)
        return _run([programs() / "psql", "-qAtX", "-v", "ON_ERROR_STOP=1", *socket, *words])

    def insert(self, first: int, count: int) -> None:
        """Insert this many orders, numbered from `first`."""
        self.sql(
            f"INSERT INTO orders SELECT n FROM generate_series({first}, {first + count - 1}) n"
        )

    def slots(self) -> list[str]:
        """Return the replication slots."""
        return self.sql("SELECT slot_name FROM pg_replication_slots").split()


@contextmanager
def postgres(port: int) -> Iterator[Postgres]:
    """Run a server with a table of orders and a user for Debezium."""
    # Not in pytest's folder: the server's user may not read it, and its path is too long for a
    # socket.
    home = Path(tempfile.mkdtemp(prefix="drctl-pg-"))
    if os.geteuid() == 0:
        shutil.chown(home, _SERVER)
    try:
        yield from _serving(home, port)
    finally:
        shutil.rmtree(home)


def connector(port: int, password: str, **settings: str) -> dict[str, str]:
    """Return a connector that captures the table of orders."""
    return {
        "connector.class": POSTGRES,
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "debezium",
        "database.password": password,
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "slot.name": "shop",
        "topic.prefix": "shop",
        "table.include.list": "public.orders",
        "key.converter": JSON,
        "value.converter": JSON,
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        # Fail at once instead of retrying for minutes.
        "errors.max.retries": "0",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


def _serving(home: Path, port: int) -> Iterator[Postgres]:
    data = home / "data"
    _run([programs() / "initdb", "-D", data, "-U", _SERVER, "-A", "trust", "--no-sync"])
    rules = (
        "local all all trust\n"
        "host all all 127.0.0.1/32 scram-sha-256\n"
        "host replication all 127.0.0.1/32 scram-sha-256\n"
    )
    (data / "pg_hba.conf").write_text(rules, encoding="ascii")
    settings = (
        f"-k {home} -p {port} -c listen_addresses=127.0.0.1 -c wal_level=logical -c fsync=off"
    )
    control: Sequence[object] = (programs() / "pg_ctl", "-D", data, "-w", "-l", home / "log")
    _run([*control, "-o", settings, "start"])
    try:
        server = Postgres(home, port)
        server.sql(
            "CREATE TABLE orders (id integer PRIMARY KEY)",
            f"CREATE ROLE {USER} LOGIN REPLICATION SUPERUSER PASSWORD '{PASSWORD}'",
        )
        yield server
    finally:
        _run([*control, "-m", "immediate", "stop"])


def _run(words: Sequence[object]) -> str:
    user = _SERVER if os.geteuid() == 0 else None
    done = subprocess.run(
        [str(word) for word in words],
        user=user,
        group=user,
        extra_groups=[] if user else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
