"""`drctl drill` on real clusters behind a real MirrorMaker 2: measured, cleaned up, nothing else
touched; also after a crash, and after its source was killed."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from drctl.drill.logs import SOURCE
from drctl.drill.names import drill_of
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from drctl.model.fencing import Denied, Topics, denials
from drctl.systems.kafka.acl_reader import KafkaAclReader
from drctl.systems.kafka.acl_writer import KafkaAclWriter
from drctl.systems.kafka.drill_reader import held
from drctl.systems.kafka.drill_writer import DrillWriter
from drctl.systems.kafka.groups import KafkaGroupReader
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster.conftest import NewDrctl
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import DEADLINE_S, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

SMALL = ("--topic-prefix", "flights-", "--records", "200", "--work", "2s", "--budget", "3m")
GO = (*SMALL, "--execute", "--yes")
WAIT_S = 300.0
BROKERS_OWN = {"__consumer_offsets"}


class Stage:
    """A link between both clusters whose applications a drill must not notice."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl) -> None:
        self.lab = lab
        self.clusters = tuple(ClusterUnderTest(lab.cluster(n)) for n in ("primary", "secondary"))
        names = {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")}
        connect = f"http://127.0.0.1:{lab.parts.settings.connect_port}"
        section = {
            "from": "primary",
            "to": "secondary",
            "topics": ["flights"],
            "replicator": {"kind": "mirrormaker2", "connect": connect, "connectors": names},
            "fence": {"method": "acl", "principals": ["User:orders-app"]},
        }
        self.drctl = new_drctl({"main": section})
        self.drills = self.drctl.folder / ".drctl" / "drills"

    def line(self, *words: str) -> list[str]:
        return [str(DRCTL), "--config", str(self.drctl.config), "drill", *words]

    def run(self, *words: str) -> Ran:
        """To its end, as a nightly job does."""
        done = subprocess.run(
            self.line(*words, "--output", "json"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self.drctl.folder,
            env=clean_environment(),
            timeout=WAIT_S,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def json(self, *words: str, code: int) -> dict[str, Any]:
        ran = self.run(*words)
        assert ran.code == code, ran.stdout + ran.stderr
        return check(ran.document())

    def killed_at(self, step: str) -> str:
        """The name of a drill that is killed once it has announced this step."""
        return self.killed_when(lambda: any(f'"{step}"' in each for each in self._intended()))

    def killed_when(self, happened: Callable[[], bool], *words: str) -> str:
        """The name of a drill that is killed once something has happened."""
        process = subprocess.Popen(
            self.line(*GO, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.drctl.folder,
            env=clean_environment(),
        )
        try:

            def now() -> bool:
                assert process.poll() is None
                return happened()

            assert Patience.of(WAIT_S).wait_until(now)
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
            process.wait(30)
        return max(file.parent.name for file in self.drills.glob("*/drill.json"))

    def fault(self, name: str) -> tuple[str, ...]:
        """What has a drill inject it."""
        return ("--inject", name, "--lab", str(self.lab.root))

    def source_hangs(self) -> bool:
        """Whether all of the source's processes are stopped."""
        parts = self.lab.parts
        return all(parts.part(name).frozen() for name in parts.named("primary"))

    def left(self) -> set[str]:
        """What of drills is on either cluster, by name."""
        found: set[str] = set()
        for cluster in self.clusters:
            found |= set(cluster.admin.list_topics(timeout=DEADLINE_S).topics)
            with (
                KafkaGroupReader(cluster.name, cluster.properties()) as groups,
                KafkaAclReader(cluster.name, cluster.properties()) as acls,
            ):
                found |= set(groups.groups())
                found |= {rule.name for rule in getattr(acls.acls(), "rules", ())}
        return {name for name in found if drill_of(name)}

    def everything_else(self) -> list[Any]:
        """Topics, positions and rules of both clusters that are not of drills."""
        found: list[Any] = []
        for cluster in self.clusters:
            topics = set(cluster.admin.list_topics(timeout=DEADLINE_S).topics)
            with (
                KafkaGroupReader(cluster.name, cluster.properties()) as groups,
                KafkaAclReader(cluster.name, cluster.properties()) as acls,
            ):
                names = [name for name in groups.groups() if not drill_of(name)]
                # A group without a position is forgotten by its cluster whenever it likes.
                kept = {name: at for name, at in groups.committed(names).items() if at}
                found += [kept, acls.acls()]
            found.append({name for name in topics - BROKERS_OWN if not drill_of(name)})
        return found

    def _intended(self) -> list[str]:
        files = self.drills.glob("*/journal.jsonl")
        lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
        return [line for line in lines if '"intend"' in line]


@pytest.fixture(scope="module")
def stage(lab: Lab, new_drctl: NewDrctl) -> Iterator[Stage]:
    made = Stage(lab, new_drctl)
    try:
        yield made
    finally:
        if made.source_hangs():
            lab.signal("primary", signal.SIGCONT)
        lab.start("primary")
        lab.start("connect")
        lab.replicate(True)


def verdicts(stage: Stage) -> list[str]:
    told = stage.json("--history", code=0)
    assert told["damaged_lines"] == 0
    return [each["verdict"] for each in told["drills"]]


def test_a_drill_that_is_killed_is_cleaned_up_by_the_next_which_passes(stage: Stage) -> None:
    refused = stage.run("--records", "200")
    assert refused.code == 3
    assert "copies topics that match flights.*" in refused.document()["error"]["message"]
    plan = stage.json(*SMALL, code=0)
    assert [each["id"] for each in plan["left_out"]] == ["stop-replication", "skip-producer-ids"]
    assert stage.left() == set(), "a plan has made something"
    before = stage.everything_else()

    died = stage.killed_at("open-target")
    mess = stage.left()
    assert {drill_of(name) for name in mess} == {died}
    assert len(mess) >= 2
    shown = stage.json("--clean", code=1)
    assert {name for name in mess if any(name in line for line in shown["left"])} == mess
    assert stage.left() == mess, "looking has deleted something"

    done = stage.json(*GO, "--max-rto", "3m", code=0)
    assert stage.left() == set()
    assert stage.everything_else() == before
    assert (done["verdict"], done["reasons"], done["mode"]) == ("passed", [], "planned")
    assert {each["status"] for each in done["steps"]} <= {"done", "passed"}
    assert 0 < done["rto"]["write_seconds"] <= done["rto"]["seconds"] < 180
    assert done["rpo"]["acknowledged"] >= 200
    assert (done["rpo"]["missing"], done["rpo"]["duplicated"]) == (0, 0)
    assert done["translation"]["finished"] >= 100
    assert (done["translation"]["reread"], done["translation"]["skipped"]) == (0, 0)
    assert done["untouched"]["differences"] == []
    assert done["untouched"]["compared"] > 10
    # Topic, copy and canary; the group on both; the rules of two fences.
    assert len(done["cleaned"]["deleted"]) >= 5
    assert done["cleaned"]["left"] == []
    assert verdicts(stage) == ["died", "passed"]
    assert "1 of 2 drills passed" in (stage.drills / "history.html").read_text("utf-8")
    assert stage.json("--clean", "--execute", "--yes", code=0)["deleted"] == []


def test_a_source_that_is_killed_shows_what_would_be_lost(stage: Stage) -> None:
    before = len(verdicts(stage))
    done = drilled_without_source(stage, "kill-source")
    assert len(verdicts(stage)) == before + 1
    assert done["translation"]["skipped"] == 0


def drilled_without_source(stage: Stage, fault: str) -> dict[str, Any]:
    """What a drill comes to that has to do without the source; it leaves nothing behind."""
    ran = stage.run(*GO, *stage.fault(fault))
    assert ran.code in (0, 1), ran.stdout + ran.stderr
    done = check(ran.document())
    assert (done["mode"], done["inject"]) == ("unplanned", fault)
    statuses = {each["id"]: each["status"] for each in done["steps"]}
    assert statuses["fence-producers"] == "owed"
    assert statuses["open-target"] == statuses["verify-clients"] == "done"
    assert done["rto"]["since"] == "last-write"
    assert done["rto"]["seconds"] > 0
    assert done["rpo"]["missing"] <= done["rpo"]["acknowledged"]
    assert done["cleaned"]["left"] == []
    assert done["untouched"]["differences"] == []
    assert stage.left() == set()
    return done


@pytest.mark.nightly
def test_a_source_that_accepts_connections_and_answers_nothing_is_given_up(stage: Stage) -> None:
    done = drilled_without_source(stage, "pause-source")
    assert done["translation"]["skipped"] == 0
    assert not stage.source_hangs()


def test_without_connect_a_planned_drill_does_not_go_through(stage: Stage) -> None:
    """What a planned failover needs is not there: nobody gives up records for a worker's death."""
    before = stage.everything_else()
    done = stage.json(*GO, *stage.fault("stop-connect"), code=1)
    assert (done["verdict"], done["mode"]) == ("failed", "planned")
    assert (done["rto"], done["rpo"], done["translation"]) == (None, None, None)
    (reason,) = done["reasons"]
    assert reason.startswith("step preflight: connect-unreachable: Connect: it does not answer")
    first, *others = done["steps"]
    assert (first["id"], first["status"]) == ("preflight", "failed")
    assert {each["status"] for each in others} == {"not-begun"}
    assert done["cleaned"]["left"] == []
    assert done["untouched"]["differences"] == [], "the connectors run again"
    assert stage.left() == set()
    assert stage.everything_else() == before


def test_a_source_that_a_dead_drill_left_hanging_goes_on_once_it_is_cleaned_up_after(
    stage: Stage,
) -> None:
    died = stage.killed_when(stage.source_hangs, *stage.fault("pause-source"))
    shown = stage.json("--clean", code=1)
    assert shown["left"][0] == f"fault pause-source, done to primary of the lab, by drill {died}"
    assert stage.source_hangs(), "looking has changed something"
    stage.json("--clean", "--execute", "--yes", code=0)
    assert not stage.source_hangs()
    assert stage.left() == set()
    assert verdicts(stage)[-1] == "died"
    assert stage.json("--clean", code=0)["left"] == []


def test_a_writer_finds_out_that_it_is_fenced(
    primary: ClusterUnderTest, new_topic: NewTopic
) -> None:
    """One that is no super user: its first refused record is what an RTO is counted from."""
    topic = new_topic(on=("primary",), mirrored=True)
    writer = DrillWriter("primary", primary.properties("orders-app"), topic, SOURCE)
    writer.write(20)
    writer.start(50)
    rules = denials(["User:orders-app"], [Topics(topic)], [Denied.WRITE])
    with KafkaAclWriter("primary", primary.properties()) as acls:
        assert set(acls.deny(rules).values()) == {None}
        try:
            assert Patience.of(DEADLINE_S).wait_until(lambda: writer.log.refused_at is not None)
            writer.stop(wait=True)
        finally:
            acls.restore(rules)
    # Acknowledgements that were on their way may be told of after the first refusal.
    assert len(writer.log.acknowledged) >= 20
    assert writer.log.refused >= 1
    there = held("primary", primary.properties(), topic)
    assert writer.log.acknowledged.keys() <= there.keys()
    assert set(there.values()) == {1}
