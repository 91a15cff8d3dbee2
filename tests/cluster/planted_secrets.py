"""A secret of every kind in drctl.yaml, and whether anyone can see one of them."""

import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil
import yaml

from tests.cluster.command import Drctl
from tests.cluster.command_endpoint import Switch, endpoint

USER = "jane"
_TAIL = "'\"$(touch pwned)\\ #: {x} %41<b>"
"""Syntax of shells, YAML, URLs and HTML; what precedes it is the same in every encoding."""

_LOOK_S = 0.1
IN_PLACE = ("endpoint.env", "environments")
"""What `env` of an endpoint is for."""

FOLDER = "secrets"


@dataclass(frozen=True)
class Secrets:
    """Secrets in files of a folder that only drctl.yaml refers to."""

    folder: Path

    def new(self, name: str) -> str:
        """Create a secret; return a reference to it for drctl.yaml."""
        place = self.folder / FOLDER
        place.mkdir(mode=0o700, exist_ok=True)
        file = place / name
        file.touch(mode=0o600)
        file.write_text(f"planted{uuid4().hex}{_TAIL}", encoding="utf-8")
        return f"${{file:{file}}}"

    def text(self, name: str) -> str:
        return (self.folder / FOLDER / name).read_text(encoding="utf-8")

    def tokens(self) -> Mapping[str, tuple[str, ...]]:
        """Return texts that only those who know a secret can have, by the secret's name."""
        found = {}
        for file in (self.folder / FOLDER).iterdir():
            secret = file.read_text(encoding="utf-8")
            sent = b64encode(f"{USER}:{secret}".encode()).decode()
            found[file.name] = (secret.removesuffix(_TAIL), sent[8:])
        return found


def plant(drctl: Drctl, link: str, directed_to: str = "primary") -> None:
    """Add secrets to drctl.yaml: of clients, workers, the journal, Spark, and an endpoint.

    Args:
        directed_to: cluster that the endpoint points to.
    """
    secrets = Secrets(drctl.folder)
    document = yaml.safe_load(drctl.config.read_text(encoding="utf-8"))
    for cluster in document["clusters"].values():
        # Properties without an effect here: the lab has neither TLS nor OAuth.
        for name in ("ssl.key.password", "sasl.oauthbearer.client.secret"):
            cluster["properties"][name] = secrets.new(name)
    access = {
        "user": USER,
        "password": secrets.new("connect.password"),
        "headers": {"X-Api-Key": secrets.new("connect.header")},
    }
    replicator = document["links"][link]["replicator"]
    for place in (replicator, replicator.get("reverse", {})):
        if "connect" in place:
            place["connect_access"] = access
    switch = Switch(drctl.folder)
    switch.direct_to(directed_to)
    switch.go()
    known = {**endpoint(), "env": {"PGPASS": secrets.new("endpoint.env")}}
    document["links"][link].setdefault("endpoints", []).append(known)
    document["journal"] = {"key": secrets.new("journal.key")}
    events = drctl.folder / "events"
    events.mkdir()
    document["spark"] = {
        "master": "local[2]",
        "conf": {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.hadoop.fs.s3a.secret.key": secrets.new("spark.conf"),
        },
    }
    drctl.config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")


@dataclass
class Processes:
    """What was seen of processes.

    Attributes:
        command_lines: of all processes of this host.
        environments: of the processes that drctl has started.
    """

    command_lines: set[bytes] = field(default_factory=set)
    environments: set[bytes] = field(default_factory=set)

    def look(self) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(FileNotFoundError, ProcessLookupError):
                self.command_lines.add((process / "cmdline").read_bytes())
        for child in psutil.Process().children(recursive=True):
            with suppress(FileNotFoundError, ProcessLookupError):
                self.environments.add(Path(f"/proc/{child.pid}/environ").read_bytes())


@contextmanager
def watched() -> Iterator[Processes]:
    """Watch the process list during the block."""
    seen, stop = Processes(), threading.Event()

    def work() -> None:
        while not stop.wait(_LOOK_S):
            seen.look()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join(20)


def shown(drctl: Drctl, texts: Mapping[str, str], processes: Processes) -> list[str]:
    """Return which secrets are in these texts, in drctl's files or in processes, and where."""
    secrets = Secrets(drctl.folder)
    lines, variables = (
        b"\n".join(each).decode("latin-1")
        for each in (processes.command_lines, processes.environments)
    )
    files = (
        path
        for path in drctl.folder.rglob("*")
        if path.is_file() and path.parent != drctl.folder / FOLDER
    )
    everything = {
        **texts,
        **{str(file): file.read_bytes().decode("latin-1") for file in files},
        "command lines": lines,
        "environments": variables,
    }
    return [
        f"{name} in {where}"
        for name, tokens in secrets.tokens().items()
        for where, text in everything.items()
        if any(token in text for token in tokens) and (name, where) != IN_PLACE
    ]
