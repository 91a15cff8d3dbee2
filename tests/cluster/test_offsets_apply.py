"""`drctl offsets snapshot`, `apply` and `undo` on real clusters: exit codes, stdout, stderr."""

import json
import shlex
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from drctl.kafka.connection import Connection
from drctl.kafka.group_offsets import KafkaGroupWriter
from drctl.kafka.groups import KafkaGroupReader
from drctl.kafka.java_properties import java_properties
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.groups import Committed, Positions
from drctl.model.topology import Record, TopicPartition
from tests.cli.documents import check
from tests.clients.applications import Applications, Client, compiled, group_of
from tests.cluster.lab_link import NewDrctl, cluster_section, link_over
from tests.cluster.link_command import soon
from tests.kafka.members import member, share_member
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

PARTITIONS = 3
RECORDS = 100
GO = ("--execute", "--yes")
LINK = "the stage's link"


class Stage:
    """A topic with a hundred records per partition on both clusters, and groups with offsets."""

    def __init__(self, new_drctl: NewDrctl, cluster: ClusterUnderTest, topic: str) -> None:
        # A run locks its link: each stage has a link of its own.
        self.link, self.keeping = (f"{name}-{uuid4().hex[:8]}" for name in ("main", "keeping"))
        link = link_over(topic)
        keeping = {**link, "replicator": {"kind": "offset-preserving", "rename": "${topic}"}}
        self.drctl = new_drctl({self.link: link, self.keeping: keeping}).offsets
        self.cluster = cluster
        self.topic = topic
        self.prefix = f"app-{uuid4().hex[:8]}"
        self.open = ExitStack()
        properties = cluster.properties()
        self.reader = self.open.enter_context(KafkaGroupReader(Connection("secondary", properties)))
        self.writer = self.open.enter_context(KafkaGroupWriter(Connection("secondary", properties)))

    def group(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def at(
        self, *offsets: int, metadata: str = "", epoch: int = -1
    ) -> dict[TopicPartition, Committed]:
        """Return these offsets for the partitions from 0 on."""
        return {
            TopicPartition(self.topic, number): Committed(offset, epoch, metadata)
            for number, offset in enumerate(offsets)
        }

    def commit(self, **groups: Positions) -> None:
        answers = self.writer.commit({self.group(n): found for n, found in groups.items()})
        assert {answer for of in answers.values() for answer in of.values()} == {None}

    def offsets_of(self, name: str) -> Any:
        return self.reader.committed([self.group(name)])[self.group(name)]

    def snapshot(self, file: str = "snapshot.json") -> dict[str, Any]:
        pattern = f"{self.prefix}-.*"
        return self.drctl.json(
            "snapshot", "--cluster", "secondary", "--group-regex", pattern, "--output-file", file
        )

    def translation(self, *rows: Mapping[str, Any], file: str = "rows.json", **more: Any) -> str:
        """Return a document as printed by `translate`."""
        document = {"schema": "drctl/offsets/1", "rows": rows, **more}
        (self.drctl.folder / file).write_text(json.dumps(document), encoding="utf-8")
        return file

    def row(self, name: str, partition: int, offset: int | None, **more: Any) -> dict[str, Any]:
        return {
            "group": self.group(name),
            "topic": self.topic,
            "partition": partition,
            "target_topic": self.topic,
            "source_offset": 7,
            "target_offset": offset,
            "method": "offset-sync",
            "rereads_at_most": 2,
            "skips_at_most": 0,
            "evidence": "a test",
            "age_seconds": 1.0,
            "blocked": None,
            **more,
        }


@pytest.fixture(scope="module")
def topic(primary: ClusterUnderTest, secondary: ClusterUnderTest) -> str:
    name = f"applied-{uuid4().hex[:8]}"
    for cluster in (primary, secondary):
        cluster.create_topic(name, PARTITIONS)
        records = [Record(n % PARTITIONS, -1, -1, None, b"v") for n in range(PARTITIONS * RECORDS)]
        cluster.produce(name, records)
    return name


@pytest.fixture
def stage(new_drctl: NewDrctl, topic: str, secondary: ClusterUnderTest) -> Iterator[Stage]:
    made = Stage(new_drctl, secondary, topic)
    with made.open:
        yield made


def test_a_snapshot_is_restored(stage: Stage) -> None:
    stage.commit(a=stage.at(10, 20, 30, metadata="mätä"), b=stage.at(5))
    taken = stage.snapshot()
    assert taken["totals"] == {
        "groups": 2, "committed_offsets": 4, "unavailable": 0, "protocols": {"classic": 2},
    }  # fmt: skip
    assert json.loads((stage.drctl.folder / "snapshot.json").read_text()) == taken
    assert (stage.drctl.folder / "snapshot.json").stat().st_mode & 0o777 == 0o600
    assert (
        stage.drctl.json("apply", "--link", stage.link, "--from", "snapshot.json")["totals"]["same"]
        == 4
    )

    stage.commit(a=stage.at(90, 20, 25))
    stage.writer.delete({stage.group("b"): list(stage.at(5))})
    words = ("apply", "--cluster", "secondary", "--from", "snapshot.json")
    plan = stage.drctl.json(*words, code=3)
    assert plan["totals"] == {"commit": 2, "delete": 0, "same": 0, "kept": 1, "refused": 1}
    assert [(ln["action"], ln["precheck"]) for ln in plan["lines"]] == [
        ("kept", "moves-backwards"),
        ("commit", None),  # the same offset with other metadata: committed with its own
        ("refused", "skips-records"),
        ("commit", None),
    ]
    assert stage.offsets_of("b") == {}, "the plan wrote something"
    assert not stage.drctl.runs.is_dir()

    partly = stage.drctl.json(*words, *GO, code=4)
    assert partly["status"] == "stopped"
    assert {(ln["partition"], ln["outcome"]) for ln in partly["lines"] if ln["precheck"]} == {
        (0, "kept"),
        (2, "refused"),
    }
    overrides = ("--override", "moves-backwards=test", "--override", "skips-records=we know")
    whole = stage.drctl.json(*words, *overrides, *GO)
    assert whole["overrides"] == [
        {"precheck": "moves-backwards", "reason": "test"},
        {"precheck": "skips-records", "reason": "we know"},
    ]
    assert stage.offsets_of("a") == stage.at(10, 20, 30, metadata="mätä")
    assert stage.offsets_of("b") == stage.at(5)
    assert stage.drctl.json("undo", whole["run"], *GO)["totals"]["committed"] == 2
    assert stage.drctl.json("undo", partly["run"], *GO)["totals"]["deleted"] == 1
    assert stage.offsets_of("a") == stage.at(90, 20, 25)
    assert stage.offsets_of("b") == {}


def test_the_text_on_a_terminal(stage: Stage) -> None:
    file = stage.translation(stage.row("a", 0, 40), stage.row("b", 1, 40, skips_at_most=None))
    words = ("apply", "--link", stage.link, "--from", file)
    plan = stage.drctl.process(*words)
    assert plan.code == 3
    assert plan.stderr == ""
    first, *_, last = plan.stdout.splitlines()
    assert first == "Plan for cluster secondary: 1 to commit, 1 refused"
    assert f"{stage.group('a')}" in plan.stdout
    assert "refused (skips-records)" in plan.stdout
    assert "may skip an unknown number of records" in plan.stdout
    assert "does not name its cluster" in plan.stdout
    assert shlex.split(last) == [
        "drctl", "--config", str(stage.drctl.config), "offsets", *words, "--execute",
    ]  # fmt: skip
    # The command line, exactly as printed.
    done = stage.drctl.process(*shlex.split(last)[4:], "--yes")
    assert done.code == 4
    assert "error" not in done.stderr
    assert done.stdout.startswith("Cluster secondary: 1 committed, 1 refused\n")
    assert stage.offsets_of("a") == stage.at(40)
    undo = shlex.split(done.stdout.splitlines()[-1])
    assert undo[3:5] == ["offsets", "undo"]
    again = stage.drctl.process(*undo[4:])
    assert (again.code, again.stderr) == (0, "")
    assert "1 to delete" in again.stdout
    assert stage.offsets_of("a") == stage.at(40)
    assert stage.drctl.process(*undo[4:], *GO).code == 0
    assert stage.offsets_of("a") == {}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_active_groups(stage: Stage, protocol: str, secondary: ClusterUnderTest) -> None:
    rows = (stage.row("busy", 0, 40), stage.row("idle", 0, 40), stage.row("shared", 0, 40))
    file = stage.translation(*rows)
    words = ("apply", "--link", stage.link, "--from", file)
    properties = secondary.properties()
    with (
        member(properties, stage.group("busy"), stage.topic, protocol),
        share_member(properties, stage.group("shared"), stage.topic),
    ):
        plan = stage.drctl.json(*words, code=3)
        prechecks = {ln["group"]: ln["precheck"] for ln in plan["lines"]}
        assert prechecks == {
            stage.group("busy"): "group-active",
            stage.group("idle"): None,
            stage.group("shared"): "group-type",
        }
        assert "/127.0.0.1" in plan["lines"][0]["reason"]
        only = stage.drctl.json(*words, "--group", stage.group("busy"), *GO, code=3)
        assert (only["status"], only["run"], only["undo"]) == ("refused", None, None)
        refused = stage.drctl(*words, "--override", "group-active=I know", *GO)
        assert refused.code == 2
        assert "--override 'group-active': no precheck of that name" in refused.stderr
        done = stage.drctl.json(*words, *GO, code=4)
        outcomes = {ln["group"]: ln["outcome"] for ln in done["lines"]}
        assert outcomes == {
            stage.group("busy"): "refused",
            stage.group("idle"): "committed",
            stage.group("shared"): "refused",
        }
    assert stage.offsets_of("busy") == {}
    assert stage.drctl.json(*words, "--group", stage.group("busy"), *GO)["status"] == "done"
    assert stage.offsets_of("busy") == stage.at(40)


ELSEWHERE = 7
"""A leader epoch that no partition of the target has reached."""


def test_an_offset_that_stays_loses_the_leader_epoch_of_another_log(stage: Stage) -> None:
    stage.commit(
        same=stage.at(40, metadata="kept", epoch=ELSEWHERE),
        ahead=stage.at(50, epoch=ELSEWHERE),
        own=stage.at(40, epoch=0),
    )
    file = stage.translation(*(stage.row(name, 0, 40) for name in ("same", "ahead", "own")))
    words = ("apply", "--link", stage.link, "--from", file)
    plan = stage.drctl.json(*words)
    assert plan["totals"] == {"commit": 2, "delete": 0, "same": 1, "kept": 0, "refused": 0}
    assert (
        "2 x commit: the offset is kept but its leader epoch 7 is removed"
        in stage.drctl(*words).stdout
    )
    done = stage.drctl.json(*words, *GO)
    assert stage.offsets_of("same") == stage.at(40, metadata="kept")
    assert stage.offsets_of("ahead") == stage.at(50)
    assert stage.offsets_of("own") == stage.at(40, epoch=0)
    assert stage.drctl.json(*words, code=3)["totals"]["commit"] == 0
    assert stage.drctl.json("undo", done["run"], *GO)["totals"]["committed"] == 2
    assert stage.offsets_of("same") == stage.at(40, metadata="kept", epoch=ELSEWHERE)
    assert stage.offsets_of("ahead") == stage.at(50, epoch=ELSEWHERE)


@pytest.mark.nightly
def test_java_consumers_read_once_the_leader_epoch_is_gone(stage: Stage, tmp_path: Path) -> None:
    classes = tmp_path / "classes"
    classes.mkdir()
    compiled(classes)
    properties = {
        **java_properties(stage.cluster.properties()),
        "auto.offset.reset": "none",
        "enable.auto.commit": "false",
    }
    waiting = [
        Client("classic.consumer", properties),
        Client("kip848.consumer", {**properties, "group.protocol": "consumer"}),
    ]
    control = Client("control.consumer", properties)
    offsets = [40] * PARTITIONS
    groups = {group_of(each, stage.topic): each for each in waiting}
    by_group = {name: stage.at(*offsets, epoch=ELSEWHERE) for name in groups}
    by_group[group_of(control, stage.topic)] = stage.at(*offsets)
    assert stage.writer.commit(by_group).keys() == by_group.keys()

    with java(stage, tmp_path / "before", [*waiting, control], classes) as running:
        running.wait(60, [control], "read")
        hangs = Patience.of(10)
        assert not hangs.wait_until(lambda: len(running.without(waiting, "read")) < len(waiting))
        assert {event.what for event in running.events()} == {"read"}, (
            "the consumers reported something other than records"
        )

    rows = [{**stage.row("", n, 40), "group": name} for name in groups for n in range(PARTITIONS)]
    words = ("apply", "--link", stage.link, "--from", stage.translation(*rows), *GO)
    soon(lambda: stage.drctl(*words).code == 0)
    with java(stage, tmp_path / "after", waiting, classes) as running:
        running.wait(60, waiting, "read")
        assert {first_read(running, each) for each in waiting} == {40}


@pytest.mark.nightly
def test_java_consumers_resume_at_their_offset_once_a_lower_epoch_is_gone(
    new_drctl: NewDrctl, lab: Lab, secondary: ClusterUnderTest, tmp_path: Path
) -> None:
    topic = f"elected-{uuid4().hex[:8]}"
    secondary.create_topic(topic, PARTITIONS)
    records = [Record(n % PARTITIONS, -1, -1, None, b"v") for n in range(PARTITIONS * RECORDS)]
    secondary.produce(topic, records)
    lab.signal("secondary", signal.SIGKILL)
    lab.start("secondary")
    secondary.produce(topic, records)
    classes = tmp_path / "classes"
    classes.mkdir()
    compiled(classes)
    properties = {
        **java_properties(secondary.properties()),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "session.timeout.ms": "6000",
    }
    client = Client("classic.consumer", properties)
    name, committed = group_of(client, topic), RECORDS + 5
    stage = Stage(new_drctl, secondary, topic)
    with stage.open:
        stage.writer.commit({name: stage.at(*[committed] * PARTITIONS, epoch=0)})
        with java(stage, tmp_path / "before", [client], classes) as running:
            running.wait(60, [client], "read")
            assert first_read(running, client) == RECORDS, (
                "the consumer did not go back to the end of the first epoch"
            )
        rows = [{**stage.row("", n, committed), "group": name} for n in range(PARTITIONS)]
        words = ("apply", "--link", stage.link, "--from", stage.translation(*rows), *GO)
        soon(lambda: stage.drctl(*words).code == 0)
        with java(stage, tmp_path / "after", [client], classes) as running:
            running.wait(60, [client], "read")
            assert first_read(running, client) == committed


def first_read(running: Applications, client: Client) -> int:
    """The lowest offset that a client has read."""
    events = running.events()
    return min(e.offset for e in events if (e.client, e.what) == (client.name, "read"))


@contextmanager
def java(
    stage: Stage, folder: Path, clients: list[Client], classes: Path
) -> Iterator[Applications]:
    """An application with these clients."""
    folder.mkdir()
    running = Applications(None, folder, stage.topic, stage.cluster.bootstrap)
    try:
        running.java("application", clients, classes, quick=False)
        yield running
    finally:
        running.end()


def test_a_group_that_becomes_active_during_the_prompt(stage: Stage) -> None:
    file = stage.translation(stage.row("a", 0, 40))
    words = ("apply", "--link", stage.link, "--from", file, "--execute")
    with ExitStack() as later:

        def come() -> None:
            later.enter_context(member(stage.cluster.properties(), stage.group("a"), stage.topic))

        ran = stage.drctl.typed(*words, name="secondary", before=come)
    assert ran.code == 3
    assert "1 refused" in ran.stdout
    assert "the group may be active" in ran.stdout
    assert stage.offsets_of("a") == {}


def test_an_offset_that_moves_during_the_prompt(stage: Stage) -> None:
    file = stage.translation(stage.row("a", 0, 40))
    words = ("apply", "--link", stage.link, "--from", file, "--execute", "-o", "json")
    ran = stage.drctl.typed(*words, name="secondary", before=lambda: stage.commit(a=stage.at(50)))
    assert ran.code == 3
    (line,) = ran.document()["lines"]
    assert (line["precheck"], line["now"]) == ("changed-since", 50)
    assert stage.offsets_of("a") == stage.at(50)


def test_the_confirmation_prompt(stage: Stage) -> None:
    file = stage.translation(stage.row("a", 0, 40))
    words = ("apply", "--link", stage.link, "--from", file, "--execute")
    wrong = stage.drctl.typed(*words, name="primary")
    assert (wrong.code, wrong.stdout) == (3, "")
    assert "'primary' instead of 'secondary'" in wrong.stderr
    gone = stage.drctl.typed(*words, name="\x03")
    assert (gone.code, gone.stdout) == (130, "")
    nobody = stage.drctl(*words)
    assert (nobody.code, nobody.stdout) == (3, "")
    assert "not confirmed: write to cluster secondary: 1 offset of 1 group" in nobody.stderr
    assert stage.offsets_of("a") == {}
    right = stage.drctl.typed(*words, name="secondary")
    assert right.code == 0
    assert stage.offsets_of("a") == stage.at(40)


def test_a_snapshot_of_another_cluster(stage: Stage, primary: ClusterUnderTest) -> None:
    name = stage.group("a")
    with KafkaGroupWriter(Connection("primary", primary.properties())) as writer:
        writer.commit({name: stage.at(10, 20, 30)})
    words = ("snapshot", "--cluster", "primary", "--group", name, "--output-file", "there.json")
    assert stage.drctl.json(*words)["totals"]["committed_offsets"] == 3
    for target in (("--link", stage.link), ("--cluster", "secondary")):
        refused = stage.drctl("apply", *target, "--from", "there.json", *GO)
        assert (refused.code, refused.stdout) == (3, "")
        assert "its offsets refer to other records there" in refused.stderr
    assert stage.offsets_of("a") == {}
    done = stage.drctl.json("apply", "--link", stage.keeping, "--from", "there.json", *GO)
    assert done["notes"] == ["the link preserves offsets: source offsets are used"]
    assert stage.offsets_of("a") == stage.at(10, 20, 30)


def test_a_translation_for_another_cluster(stage: Stage) -> None:
    for more in ({"to": "elsewhere"}, {"target": {"cluster": "secondary", "id": "x"}}):
        file = stage.translation(stage.row("a", 0, 40), **more)
        refused = stage.drctl("apply", "--link", stage.link, "--from", file, *GO)
        assert refused.code == 3
        assert "is a translation for cluster" in refused.stderr
    file = stage.translation(stage.row("a", 0, 40), to="secondary")
    assert stage.drctl.json("apply", "--link", stage.link, "--from", file)["notes"] == []


def test_rows_that_cannot_be_applied(stage: Stage) -> None:
    rows = (
        stage.row("a", 0, None, target_topic=None, blocked="no such topic"),
        stage.row("a", 1, 101),
        stage.row("a", 2, 40, target_topic="no-such-topic"),
        stage.row("b", 0, 40, blocked="who knows"),
    )
    file = stage.translation(*rows)
    plan = stage.drctl.json("apply", "--link", stage.link, "--from", file, code=3)
    prechecks = {
        (ln["topic"], ln["partition"], ln["group"][-1]): ln["precheck"] for ln in plan["lines"]
    }
    assert prechecks == {
        (stage.topic, 0, "a"): "blocked",
        (stage.topic, 1, "a"): "outside-log",
        ("no-such-topic", 2, "a"): "not-readable-target",
        (stage.topic, 0, "b"): "blocked",
    }
    over = ("--override", "blocked=we know", "--override", "outside-log=we know")
    done = stage.drctl.json("apply", "--link", stage.link, "--from", file, *over, *GO, code=4)
    assert done["totals"]["committed"] == 2
    assert stage.offsets_of("b") == stage.at(40)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("apply", "--link", LINK, "--from", "nothing.json"), "cannot read nothing.json"),
        (("apply", "--link", LINK, "--cluster", "secondary"), "cannot be combined"),
        (("apply", "--from", "rows.json"), "has 2 links"),
        (("apply", "--link", LINK, "--from", "x", "--yes"), "--yes requires --execute"),
        (
            ("apply", "--link", LINK, "--from", "x", "--override", "no=x"),
            "--override 'no': no precheck",
        ),
        (("apply", "--cluster", "secondary"), "--cluster requires --from"),
        (("apply", "--cluster", "third", "--from", "rows.json"), "no cluster 'third'"),
        (("apply", "--link", LINK, "--from", "rows.json", "--group", "x"), "no group matches"),
        (("apply", "--link", LINK, "--from", "bad.json"), "bad.json:1:"),
        (("snapshot",), "clusters: choose one"),
        (
            ("snapshot", "--cluster", "secondary", "--group-regex", "["),
            "invalid regular expression",
        ),
        (("undo",), "has 2 links"),
        (("undo", "19990101T000000.000000Z"), "has 2 links"),
        (("undo", "19990101T000000.000000Z", "--link", LINK), "there is no run"),
        (("undo", "--link", LINK), "no run to undo"),
        (("undo", "--link", LINK, "--cluster", "secondary"), "cannot be combined"),
        (("apply", "--link", LINK, "--from", "rows.json", "--expect-plan", "x"), "cannot read x"),
        (("undo", "--yes"), "--yes requires --execute"),
    ],
)
def test_option_conflicts(stage: Stage, words: tuple[str, ...], message: str) -> None:
    words = tuple(stage.link if word == LINK else word for word in words)
    stage.translation(stage.row("a", 0, 40))
    (stage.drctl.folder / "bad.json").write_text('{"schema": "drctl/offsets/1", "rows": [{}]}')
    ran = stage.drctl(*words)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")
    assert message in ran.stderr
    error = stage.drctl.json(*words, code=2)["error"]
    assert message in error["message"]


def test_a_usage_error_of_the_real_command(stage: Stage) -> None:
    ran = stage.drctl.process("apply", "--link", stage.link, "--yes")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: ")


def test_an_unreachable_cluster(stage: Stage, new_drctl: NewDrctl) -> None:
    section = cluster_section(stage.cluster)
    section["bootstrap"] = f"127.0.0.1:{free_ports(1)[0]}"
    gone = new_drctl({}, clusters={"secondary": section}).offsets
    rows = stage.translation(stage.row("a", 0, 40))
    began = time.monotonic()
    (gone.folder / rows).write_bytes((stage.drctl.folder / rows).read_bytes())
    ran = gone.process("apply", "--cluster", "secondary", "--from", rows, *GO)
    assert (ran.code, ran.stdout) == (5, "")
    assert "error: cluster secondary" in ran.stderr
    assert "refused" in ran.stderr
    assert time.monotonic() - began < 30


@pytest.mark.nightly
def test_no_answer_after_a_write_was_sent(stage: Stage, lab: Lab) -> None:
    """The broker is frozen when the journal announces the write, and continues later."""
    stage.commit(a=stage.at(10))
    words = ("apply", "--link", stage.link, "--from", stage.translation(stage.row("a", 0, 40)), *GO)
    for _ in range(5):
        code, run = hanging(stage, lab, *words)
        if code != 0:
            break
        # The run completed before the signal arrived.
        stage.commit(a=stage.at(10))
    assert code == 5
    # The request may have been applied since; in either case a resume completes the run.
    soon(lambda: stage.offsets_of("a") in (stage.at(40), stage.at(10)))
    resumed = stage.drctl.main("resume", run, *GO, "-o", "json")
    assert resumed.code == 0, resumed.stdout + resumed.stderr
    assert check(resumed.document())["status"] == "done"
    assert stage.offsets_of("a") == stage.at(40)
    assert stage.drctl.json("undo", run, *GO)["status"] == "done"
    assert stage.offsets_of("a") == stage.at(10)


def hanging(stage: Stage, lab: Lab, *words: str) -> tuple[int, str]:
    known = set(journals(stage))
    node = lab.parts.part("secondary-1").process()
    assert node is not None
    with stage.drctl.running(*words, "-o", "json") as process:
        try:
            until = time.monotonic() + 60
            new: list[Path] = []
            # The write follows within milliseconds: slower polling would miss it.
            while process.poll() is None:
                assert time.monotonic() < until, "no intent was written"
                new = [file for file in journals(stage) if file not in known]
                if new and b'"intend"' in new[0].read_bytes():
                    node.suspend()
                    break
                time.sleep(0.0005)
            process.communicate(timeout=150)
        finally:
            node.resume()
        return process.returncode, new[0].parent.name


def journals(stage: Stage) -> list[Path]:
    return list(stage.drctl.runs.glob("*/journal.jsonl"))


def killed(stage: Stage, *words: str) -> str:
    """Return the run that is killed when its first batch is announced."""
    with stage.drctl.running(*words) as process:
        soon(lambda: any(b'"intend"' in file.read_bytes() for file in journals(stage)))
        process.kill()
        process.wait(60)
    return journals(stage)[0].parent.name


def test_a_killed_run_is_undone(stage: Stage) -> None:
    """Killed when the first batch is announced."""
    names = [f"k{number}" for number in range(300)]
    stage.commit(**{name: stage.at(10) for name in names})
    file = stage.translation(*(stage.row(name, n, 40) for name in names for n in range(2)))
    words = ("apply", "--link", stage.link, "--from", file, *GO)
    killed(stage, *words)
    plan = stage.drctl.json("undo")
    assert plan["notes"] == ["the run has not finished"]
    refused = stage.drctl(*words)
    assert refused.code == 3
    assert "drctl resume" in refused.stderr
    assert stage.drctl.json("undo", *GO)["status"] == "done"
    found = stage.reader.committed([stage.group(name) for name in names])
    assert all(positions == stage.at(10) for positions in found.values())


def test_hostile_names_cannot_act_on_the_terminal(stage: Stage) -> None:
    name = f"{stage.prefix}-\x1b[2J\u202e'; rm -rf [red]"
    stage.writer.commit({name: stage.at(10)})
    file = stage.translation({**stage.row("x", 0, 40), "group": name})
    for words in (
        ("snapshot", "--cluster", "secondary", "--group-regex", f"{stage.prefix}.*"),
        ("apply", "--link", stage.link, "--from", file),
        ("apply", "--link", stage.link, "--from", file, *GO),
    ):
        ran = stage.drctl(*words)
        assert ran.code == 0, ran.stderr
        assert all(line.isprintable() for line in ran.stdout.splitlines())
    assert stage.drctl.json("undo")["lines"][0]["group"] == name


def test_a_killed_run_is_resumed(stage: Stage) -> None:
    file = stage.translation(*(stage.row("a", n, 40) for n in range(3)))
    words = ("apply", "--cluster", "secondary", "--from", file, *GO)
    run = killed(stage, *words)
    resumed = stage.drctl.main("resume", "--cluster", "secondary", *GO, "-o", "json")
    if resumed.code == 2:
        # It was quicker than the signal.
        assert "has no unfinished run" in resumed.stdout
    else:
        assert (resumed.code, check(resumed.document())["run"]) == (0, run)
    assert stage.offsets_of("a") == stage.at(40, 40, 40)
    listed = stage.drctl.main("journal", "--cluster", "secondary", "-o", "json").document()
    assert run in [each["run"] for each in listed["runs"]]
    report = stage.drctl.main("report", run, "--format", "md")
    assert report.code == 0, report.stderr
    assert stage.drctl.json("undo", run, *GO)["totals"]["deleted"] == 3
    assert stage.offsets_of("a") == {}


def test_the_plan_that_was_shown_is_executed(stage: Stage) -> None:
    file = stage.translation(stage.row("a", 0, 40))
    words = ("apply", "--link", stage.link, "--from", file)
    stage.drctl.json(*words, "--plan-out", "plan.json")
    shown = check(json.loads((stage.drctl.folder / "plan.json").read_text()))
    assert [step["kind"] for step in shown["steps"]] == ["apply-offsets"]
    stage.commit(a=stage.at(7))
    refused = stage.drctl(*words, "--expect-plan", "plan.json", *GO)
    assert (refused.code, refused.stdout) == (3, "")
    assert "the plan is not the one in plan.json" in refused.stderr
    stage.writer.delete({stage.group("a"): list(stage.at(7))})
    assert stage.drctl.json(*words, "--expect-plan", "plan.json", *GO)["status"] == "done"
    assert stage.offsets_of("a") == stage.at(40)
