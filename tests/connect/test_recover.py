"""Connectors of the lab's real worker that fail for real reasons, and their remedies."""

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from drctl.connect.client import ConnectWriter
from drctl.lab.lab import Lab
from drctl.lab.settings import scram_login
from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from tests.cli.conftest import clean_environment
from tests.connect.connect_command import ConnectCommand
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm

DEADLINE_S = 60
QUICK = (
    "--initial-backoff",
    "0.2s",
    "--max-backoff",
    "0.4s",
    "--attempts",
    "2",
    "--min-uptime",
    "2s",
)


@pytest.fixture(scope="module")
def connect(lab: Lab) -> Iterator[ConnectWriter]:
    with closing(ConnectWriter(lab.parts.worker.url)) as client:
        yield client


@pytest.fixture
def command(lab_yaml: Callable[..., Path]) -> ConnectCommand:
    return ConnectCommand(lab_yaml("flights"))


class Beating:
    """Creates connectors that only write heartbeats, each with a fault."""

    def __init__(self, lab: Lab, connect: ConnectWriter) -> None:
        self._connect = connect
        self._lab = lab
        self.usual = connect.config("mm2-heartbeat")
        self.made: list[str] = []

    def make(self, what: str, **faults: str) -> str:
        """Create another connector."""
        name = f"{what}-{uuid4().hex[:6]}"
        self.made.append(name)
        settings = {key.replace("__", "."): value for key, value in faults.items()}
        alias = {"source.cluster.alias": "aside", "name": name}
        self._connect.put_config(name, {**self.usual, **alias, **settings})
        return name

    def await_failures(self) -> None:
        """Wait until all of them have failed."""

        def so() -> bool:
            states = self._connect.statuses()
            tasks = [states[name].tasks if name in states else () for name in self.made]
            return all(each and each[0].state == "FAILED" for each in tasks)

        assert Patience.of(DEADLINE_S).wait_until(so), self._connect.statuses()

    def login(self, user: str, password: str | None = None) -> str:
        """Return the settings of a user of the secondary."""
        file = self._lab.cluster("secondary").password_file(user)
        return scram_login(user, password or f"${{directory:{file.parent}:{file.name}}}")

    def clean_up(self) -> None:
        there = self._connect.connectors()
        for name in self.made:
            if name in there:
                self._connect.delete(name)


@pytest.fixture(scope="module")
def beating(lab: Lab, connect: ConnectWriter) -> Iterator[Beating]:
    maker = Beating(lab, connect)
    yield maker
    maker.clean_up()


@pytest.fixture(scope="module")
def broken(beating: Beating) -> dict[str, str]:
    """Failed connectors by their expected cause."""
    jaas = "producer__override__sasl__jaas__config"
    made = {
        "authentication": beating.make("auth", **{jaas: beating.login("orders-app", "wrong")}),
        "authorization": beating.make("acl", **{jaas: beating.login("orders-app")}),
        "unreachable": beating.make(
            "away", producer__override__bootstrap__servers="nowhere.invalid:9092"
        ),
        "configuration": beating.make("odd", producer__override__delivery__timeout__ms="1"),
        "deserialization": beating.make(
            "long", value__converter="org.apache.kafka.connect.converters.LongConverter"
        ),
    }
    beating.await_failures()
    return made


def failed(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    (cluster,) = document["clusters"]
    return {
        each["name"]: part["explained"]
        for each in cluster["connectors"]
        for part in each["parts"]
        if part["state"] == "FAILED"
    }


def test_real_failures_are_explained(command: ConnectCommand, broken: dict[str, str]) -> None:
    document = command.json("status", code=1)
    causes = {name: explained["cause"] for name, explained in failed(document).items()}
    assert causes == {name: cause for cause, name in broken.items()}
    assert document["failed"] == len(broken)
    ran = command("status")
    assert ran.code == 1
    assert re.match(
        rf"Connect 127\.0\.0\.1:\d+: {len(broken)} of \d+ connectors failed\n", ran.stdout
    )
    assert f"{broken['authentication']}, task 0: authentication failed" in ran.stdout
    assert "wrong" not in ran.stdout.replace("wrong password", ""), "a password was shown"


def test_unreachable_workers_are_not_success(command: ConnectCommand, lab: Lab) -> None:
    ran = command("status", "--connect", lab.parts.worker.url, "--connect", "http://127.0.0.1:1")
    assert ran.code == 5
    assert "Connect 127.0.0.1:1: Kafka Connect (http://127.0.0.1:1) did not answer" in ran.stdout
    assert "mm2-heartbeat" in ran.stdout


def test_only_restartable_failures_are_planned(
    command: ConnectCommand, broken: dict[str, str], connect: ConnectWriter
) -> None:
    before = connect.statuses()
    plan = command.json("recover", code=3)
    actions = {line["connector"]: line["action"] for line in plan["lines"]}
    assert actions == {
        name: "restart" if cause == "unreachable" else "refuse" for cause, name in broken.items()
    }
    assert [row["total_seconds"] for row in plan["backoff"]][-1] == 20 * 60 + 7
    assert connect.statuses() == before, "the plan changed something"


def test_a_lasting_failure_ends_the_restarts(
    command: ConnectCommand, broken: dict[str, str]
) -> None:
    words = ("recover", "--connector", broken["unreachable"], *QUICK, "--execute", "--yes")
    (each,) = command.json(*words, code=1)["connectors"]
    assert (each["ending"], each["restarts"]) == ("failing", 2)
    assert each["explained"]["cause"] == "unreachable"


def grant(secondary: ClusterUnderTest) -> None:
    """Allow the lab's application to write heartbeats."""
    rule = AclBinding(
        ResourceType.TOPIC,
        "heartbeats",
        ResourcePatternType.LITERAL,
        "User:orders-app",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    for future in secondary.admin.create_acls([rule]).values():
        future.result()


@pytest.fixture
def ungranted(secondary: ClusterUnderTest) -> Iterator[None]:
    """Remove that permission: other tests use the lab, too."""
    yield
    mine = AclBindingFilter(
        ResourceType.TOPIC,
        "heartbeats",
        ResourcePatternType.LITERAL,
        "User:orders-app",
        None,
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    for future in secondary.admin.delete_acls([mine]).values():
        future.result()


@pytest.mark.usefixtures("ungranted")
def test_a_repaired_connector_runs_and_another_process_can_resume(
    command: ConnectCommand,
    broken: dict[str, str],
    secondary: ClusterUnderTest,
    connect: ConnectWriter,
    beating: Beating,
) -> None:
    grant(secondary)
    name = broken["authorization"]
    words = ("recover", "--connector", name, "--min-uptime", "2s", "--execute", "--yes")
    assert command.json(*words, code=3)["connectors"] == []
    done = command.json(*words, "--override", "cause=the ACL is there now")
    (each,) = done["connectors"]
    assert (each["ending"], each["explained"]) == ("running", None)
    assert each["restarts"] >= 1
    # The id of the run is enough: this host's journals name its Connect workers.
    document = replace(command, room="journal").json(done["run"])
    (shown,) = document["runs"]
    kinds = [each["entry"] for each in shown["entries"]]
    assert (kinds[0], kinds[1], kinds[-1]) == ("began", "intend", "ended")
    began = json.loads(shown["entries"][0]["line"])
    assert began["plan"]["overrides"] == {"cause": "the ACL is there now"}
    beating.made.append(f"{name}-b")
    recreate = ("--connector", name, "--remedy", "recreate", "--as", f"{name}-b")
    always = ("--min-uptime", "1s", "--override", "cause=its position is of no use")
    (line,) = command.json("recover", *recreate, *always)["lines"]
    assert line["steps"][-1] == f"{name} stays stopped"
    recreated = command.json("recover", *recreate, *always, "--execute", "--yes")["remedy_result"]
    assert (recreated["code"], recreated["message"]) == (
        0,
        f"{name}-b runs, and starts from scratch",
    )
    states = {each: connect.status(each).state for each in (name, f"{name}-b")}
    assert states == {name: "STOPPED", f"{name}-b": "RUNNING"}


def test_ctrl_c_ends_the_pauses(command: ConnectCommand, broken: dict[str, str]) -> None:
    process = subprocess.Popen(
        command.line(
            "recover",
            "--connector",
            broken["unreachable"],
            "--initial-backoff",
            "1s",
            "--execute",
            "--yes",
        ),
        cwd=command.config.parent,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        output = ""
        while "if it is not running" not in output:
            line = process.stderr.readline()
            assert line, output
            output += line
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "error: interrupted" in rest
    found = re.search(r"resume (\S+)", rest)
    assert found, rest
    left = (found[1], "--abandon", "a test goes on", "--execute", "--yes")
    replace(command, room="resume").json(*left, code=1)


@pytest.fixture(scope="module")
def topic(primary: ClusterUnderTest) -> Iterator[str]:
    """A topic of the source that the lab's own connectors do not replicate."""
    name = f"test-moved-{uuid4().hex[:6]}"
    primary.create_topic(name)
    yield name
    primary.delete_topics([name])


def mirror(lab: Lab, connect: ConnectWriter, topic: str) -> dict[str, str]:
    """A connector of the administrator that replicates the topic as `primary.TOPIC`."""
    files = {name: lab.cluster(name).password_file("admin") for name in ("primary", "secondary")}
    words = {n: f"${{directory:{f.parent}:{f.name}}}" for n, f in files.items()}
    jaas = {name: scram_login("admin", word) for name, word in words.items()}
    policy = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
    return {
        **connect.config("mm2-source"),
        "topics": topic,
        "tasks.max": "1",
        "replication.policy.class": policy,
        "source.cluster.sasl.jaas.config": jaas["primary"],
        "target.cluster.sasl.jaas.config": jaas["secondary"],
        "producer.override.sasl.jaas.config": jaas["secondary"],
        "source.cluster.alias": "primary",
    }


def rows(first: int, count: int) -> list[Record]:
    return [Record(0, 0, 0, b"k", str(n).encode()) for n in range(first, first + count)]


def test_positions_move_to_another_connector_without_duplicates(
    lab: Lab,
    connect: ConnectWriter,
    command: ConnectCommand,
    topic: str,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
) -> None:
    copy, old, new = f"primary.{topic}", f"old-{topic}", f"new-{topic}"
    config = mirror(lab, connect, topic)

    def copied(count: int) -> bool:
        known = secondary.admin.list_topics(timeout=20).topics
        return copy in known and secondary.end_offsets(copy) == {0: count}

    try:
        primary.produce(topic, rows(0, 50))
        connect.put_config(old, {**config, "name": old})
        assert Patience.of(DEADLINE_S).wait_until(lambda: copied(50))
        connect.stop(old)
        assert Patience.of(DEADLINE_S).wait_until(lambda: not connect.status(old).tasks)
        file = command.config.parent / "positions.json"
        exported = command.json("offsets", "export", "--connector", old, "--output-file", str(file))
        assert exported["connectors"][0]["offsets"] == [
            {
                "partition": {"cluster": "primary", "topic": topic, "partition": 0},
                "offset": {"offset": 49},
            }
        ]
        primary.produce(topic, rows(50, 30))
        moving = ("--from", str(file), "--rename", f"{old}={new}")
        (line,) = command.json("offsets", "translate", *moving, code=3)["lines"]
        assert line["precheck"] == "no-connector"
        connect.create_stopped(new, {**config, "name": new})
        assert Patience.of(DEADLINE_S).wait_until(lambda: new in connect.statuses())
        (line,) = command.json("offsets", "translate", *moving)["lines"]
        assert (line["action"], line["before"]) == ("write", None)
        applied = command.json("offsets", "apply", *moving, "--execute", "--yes")
        assert [each["outcome"] for each in applied["lines"]] == ["written"]
        undone = ("--from", applied["before"])
        (line,) = command.json("offsets", "apply", *undone, "--execute", "--yes")["lines"]
        assert (line["outcome"], line["now"]) == ("written", None)
        assert connect.offsets(new) == (), "the earlier state was not restored"
        command.json("offsets", "apply", *moving, "--execute", "--yes")
        connect.resume(new)
        assert Patience.of(DEADLINE_S).wait_until(lambda: copied(80))
        (line,) = command.json("offsets", "translate", *moving, code=3)["lines"]
        assert line["precheck"] == "not-stopped"
        assert secondary.end_offsets(copy) == {0: 80}, "not exactly 30 records were added to the 50"
    finally:
        for name in {old, new} & set(connect.connectors()):
            connect.delete(name)
        secondary.delete_topics([copy])
