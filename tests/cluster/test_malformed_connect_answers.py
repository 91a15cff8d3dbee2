"""After a failover's fence something else responds in place of Connect: nothing is lost.

A proxy forwards to the real Connect. After a step it sends malformed responses to all requests or
to a few, which Connect never sees.
"""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice

import pytest

from tests.cli.conftest import Ran
from tests.cluster.failover_stage import Stage, mirror_maker
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO
from tests.connect.raw_server import answer, raw_server

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600), pytest.mark.nightly]

RECORDS = 120
UNPLANNED = ("failover", "--mode", "unplanned")


def drips(sock: socket.socket) -> None:
    """Send a byte every 0.2 s."""
    for byte in answer(b"[" + b" " * 4_000 + b"]"):
        sock.sendall(bytes([byte]))
        time.sleep(0.2)


def says(body: bytes) -> Callable[[socket.socket], None]:
    return lambda sock: sock.sendall(answer(body))


ODD: dict[str, Callable[[socket.socket], None]] = {
    "html": says(b"<!DOCTYPE html><html><title>Please log in</title></html>"),
    "null": says(b"null"),
    "shape": says(json.dumps({"mm2-source": [{"state": {}}]}).encode()),
    "deep": says(b"[" * 100_000 + b"]" * 100_000),
    "dripping": drips,
}


@dataclass
class Front:
    """The proxy.

    Attributes:
        behind: the step after which it starts.
        odd: the malformed responses; after the last one it forwards again.
        sent: how many were sent.
    """

    connect: int
    stage: Stage | None = None
    behind: str = "fence-producers"
    odd: Iterator[Callable[[socket.socket], None]] = field(default_factory=lambda: iter(()))
    sent: int = 0

    def handle(self, sock: socket.socket, request: bytes) -> None:
        odd = next(self.odd, None) if self._step_done() else None
        if odd is not None:
            self.sent += 1
            odd(sock)
            return
        with socket.create_connection(("127.0.0.1", self.connect), 30) as worker:
            worker.sendall(request)
            while piece := worker.recv(65_536):
                sock.sendall(piece)

    def _step_done(self) -> bool:
        """Whether the run has continued after the step."""
        on, step = self.stage, self.behind
        return on is not None and (on.has("done", step) or on.has("outstanding", step))


@pytest.fixture
def placed(site: Site) -> Iterator[tuple[Stage, Front, list[str], list[str]]]:
    """A link with replicated records, some of which the group has read."""
    front = Front(site.lab.parts.settings.connect_port)
    with raw_server(front.handle) as served:
        replicator = {**mirror_maker(site.lab), "connect": served.url()}
        stage = front.stage = site.keep(Stage(site, replicator=replicator))
        written = stage.written(RECORDS)
        yield stage, front, written, stage.read(stage.source, most=50)


Placed = tuple[Stage, Front, list[str], list[str]]


def no_bug(ran: Ran, code: int) -> str:
    output = ran.stdout + ran.stderr
    assert ran.code == code, output
    assert "Traceback" not in output
    assert "bug in drctl" not in output
    return output


def whole(placed: Placed) -> None:
    """Assert that clients are on the target with all records, and that replication is stopped."""
    stage, _, written, read = placed
    assert stage.directs_to("secondary")
    more = stage.write(RECORDS, "after", stage.target)
    assert len(more) == RECORDS
    found = stage.read(stage.target, most=10_000, wait_for=len(written) + RECORDS - len(read))
    assert {*read, *found} == {*written, *more}


@pytest.mark.parametrize("kind", ODD)
def test_a_run_without_a_valid_answer_waits_and_resumes_once_connect_answers(
    placed: Placed, kind: str
) -> None:
    """Nothing is rolled back blindly: the fence stays, and the resumed run completes."""
    stage, front, *_ = placed
    front.odd = cycle([ODD[kind]])
    output = no_bug(stage.run("failover", *GO), 5)
    assert ("did not answer" if kind == "dripping" else "a response of Kafka Connect") in output
    assert front.sent > 0
    assert stage.write(3, "refused") == [], "the fence was lifted"
    no_bug(stage.run("resume", *GO), 5)
    front.odd = iter(())
    done = stage.json("resume", *GO, code=0)
    assert done["status"] == "done"
    assert stage.all_states() == {"STOPPED"}
    whole(placed)


def test_a_few_malformed_answers_change_nothing(placed: Placed) -> None:
    stage, front, *_ = placed
    few = [each for kind, each in ODD.items() if kind != "dripping"]
    front.odd = islice(cycle(few), 2 * len(few))
    no_bug(stage.run("failover", *GO), 0)
    assert front.sent == 2 * len(few)
    assert stage.all_states() == {"STOPPED"}
    whole(placed)


@pytest.mark.parametrize("kind", ["html", "dripping"])
def test_outstanding_actions_do_not_delay_enabling_writes(placed: Placed, kind: str) -> None:
    stage, front, *_ = placed
    front.behind, front.odd = "switch-endpoint-1", cycle([ODD[kind]])
    no_bug(stage.run("failover", *GO), 1)
    outstanding = [each["step"] for each in stage.entries("outstanding")]
    assert outstanding == ["confirm-stop"]
    assert stage.journaled()[-1]["status"] == "done"
    whole(placed)


def test_a_lost_source_and_malformed_answers(placed: Placed) -> None:
    stage, front, *_ = placed
    stage.lab.signal("primary", signal.SIGKILL)
    front.odd = cycle([ODD["html"]])
    assert "a response of Kafka Connect" in no_bug(stage.run(*UNPLANNED, *GO), 5)
    front.odd = islice(cycle([ODD["null"], ODD["shape"]]), 6)
    no_bug(stage.run("resume", *GO), 1)
    assert front.sent > 6
    assert stage.directs_to("secondary")
    assert len(stage.write(RECORDS, "after", stage.target)) == RECORDS
