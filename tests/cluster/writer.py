"""A user known to both clusters, and an application of hers that writes all the time."""

import json
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.cluster.topic_acls import USES, forget, grant, rule
from tests.lab.cluster_under_test import ClusterUnderTest

_PROGRAM = Path(__file__).with_name("writer_program.py")
_MECHANISM = ScramMechanism.SCRAM_SHA_512
DENIED = "TOPIC_AUTHORIZATION_FAILED"


class Attempt(NamedTuple):
    """A record that the application tried to write, with wall-clock times."""

    began: datetime
    answered: datetime
    answer: str
    value: str

    @property
    def taken(self) -> bool:
        """Whether it was acknowledged."""
        return self.answer == "acknowledged"

    @property
    def seconds(self) -> float:
        """Seconds until the response."""
        return (self.answered - self.began).total_seconds()


@dataclass(frozen=True)
class Writer:
    """The running application."""

    process: "subprocess.Popen[bytes]"
    output: Path

    def attempts(self) -> list[Attempt]:
        """Return all attempts so far."""
        assert self.process.poll() is None, "the application is gone"
        lines = self.output.read_text(encoding="utf-8").split("\n")[:-1]
        return [_attempt(*line.split("\t")) for line in lines]

    def taken(self) -> list[str]:
        """Return the acknowledged records so far."""
        return [each.value for each in self.attempts() if each.taken]


def _attempt(began: str, answered: str, answer: str, value: str) -> Attempt:
    return Attempt(_moment(began), _moment(answered), answer, value)


def _moment(nanoseconds: str) -> datetime:
    return datetime.fromtimestamp(int(nanoseconds) / 1e9, UTC)


@contextmanager
def known_to(
    clusters: tuple[ClusterUnderTest, ...], user: str, topic: str, password: str = ""
) -> Iterator[str]:
    """Create the user with permissions on the topic during the block; return her password."""
    password = password or secrets.token_hex(16)
    added = UserScramCredentialUpsertion(
        user, ScramCredentialInfo(_MECHANISM, 4096), password.encode()
    )
    with ExitStack() as known:
        for cluster in clusters:
            _answered(cluster.admin.alter_user_scram_credentials([added]))
            known.callback(_forgotten, cluster, user, topic)
            grant(cluster, *(rule(user, topic, each) for each in USES))
        yield password


def _forgotten(cluster: ClusterUnderTest, user: str, topic: str) -> None:
    forget(cluster, topic)
    gone = UserScramCredentialDeletion(user, _MECHANISM)
    _answered(cluster.admin.alter_user_scram_credentials([gone]))


def _answered(asked: Mapping[Any, Future[Any]]) -> None:
    for done in asked.values():
        done.result()


@contextmanager
def writing(folder: Path, bootstrap: str, user: str, password: str, topic: str) -> Iterator[Writer]:
    """Run it during the block, against whatever the address leads to."""
    properties = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "message.timeout.ms": "5000",
    }
    file, output = folder / "writer.json", folder / "written"
    file.touch(mode=0o600)
    file.write_text(json.dumps(properties), encoding="utf-8")
    with output.open("wb") as stdout, (folder / "complaints").open("wb") as complaints:
        # Its standard input is closed when this process ends, which ends the application.
        process = subprocess.Popen(
            [sys.executable, str(_PROGRAM), str(file), topic],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=complaints,
        )
    try:
        yield Writer(process, output)
    finally:
        process.kill()
        process.wait(10)
        assert process.stdin is not None
        process.stdin.close()
