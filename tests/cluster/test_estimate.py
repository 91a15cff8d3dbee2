"""`drctl gap --scope estimate` on real brokers: no record is read, and the truth is near."""

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drctl.model.estimate import ASSUMED
from drctl.model.topology import Record
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check
from tests.cluster.conftest import NewDrctl, new_prefix
from tests.cluster.filling import (
    Batch,
    Clock,
    Filling,
    R,
    copies,
    delete_before,
    fill,
    holding,
    rows,
)
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

DEADLINE_S = 60
MANY = tuple(rows(60))
OWN = {"message.timestamp.type": "LogAppendTime"}


def in_transactions(cluster: ClusterUnderTest, topic: str) -> None:
    """Twelve transactions, one of them aborted, with the times of their records."""
    for n in range(12):
        records = [Record(0, 0, round(time.time() * 1000), b"%d" % n, b"v") for _ in range(5)]
        cluster.produce(topic, records, "abort" if n == 3 else "commit")
        if n != 3:
            COMMITTED.extend(records)


def copies_of_transactions(cluster: ClusterUnderTest, topic: str) -> None:
    cluster.produce(topic, COMMITTED)


COMMITTED: list[Record] = []
SOURCE = {
    "same": holding(*MANY),
    "stopped": holding(*MANY, *rows(30, p=1)),
    "went-on": holding(*MANY),
    "holes": holding(*rows(300, times=10)),
    "deleted-there": holding(*MANY),
    "own-clock": holding(*MANY),
    "not-there": holding(*rows(3)),
    "open": Filling((Batch(MANY), Batch(rows(5, start=60), "open"))),
    "transactions": Filling((in_transactions,)),
    "old-times": Filling(
        tuple(Batch(rows(5, start=5 * n), "abort" if n == 3 else "commit") for n in range(12))
    ),
}
TARGET = {
    "same": holding(*copies(MANY)),
    "stopped": holding(*copies((*MANY[:45], *rows(30, p=1)))),
    "went-on": holding(*copies(MANY[:50]), *(R(b"own", b"v", 100 + n) for n in range(10))),
    "holes": holding(*copies(r for n, r in enumerate(rows(300, times=10)) if n not in (50, 51))),
    "deleted-there": Filling((Batch(copies(MANY[:55])), delete_before(20)), 1),
    "own-clock": holding(*copies(MANY[:50]), config=OWN),
    "open": holding(*copies(MANY)),
    "transactions": Filling((copies_of_transactions,)),
    "old-times": holding(*copies(r for n in range(12) if n != 3 for r in rows(5, start=5 * n))),
}


class Estimated:
    """What drctl said, by topic without its prefix."""

    def __init__(self, ran: Ran, prefix: str) -> None:
        self.ran = ran
        self.document = check(ran.document())
        self.topics = {
            topic["topic"].removeprefix(prefix): topic["partitions"]
            for topic in self.document["topics"]
        }

    def missing(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The estimate and the upper bound; a lower bound is said where no transaction ran."""
        found = self.topics[topic][partition]
        at_least, about = found["missing_at_least"], found["missing_estimate"]
        assert at_least == (0 if "transactions" in found["uncertainty"] else about)
        return about, found["missing_at_most"]

    def second(self, clock: Clock, topic: str, field: str) -> float | None:
        """A moment in seconds of the scenario's clock."""
        found: Mapping[str, Any] | None = self.topics[topic][0][field]
        return None if found is None else (found["ms"] - clock.start_ms) / 1000


def run(config: Path, *arguments: str) -> Ran:
    done = subprocess.run(
        [DRCTL, "--config", config, *arguments],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=config.parent,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def prefix() -> str:
    return new_prefix()


@pytest.fixture(scope="module")
def config(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    clock: Clock,
    prefix: str,
    new_drctl: NewDrctl,
) -> Path:
    fill(primary, {prefix + name: side for name, side in SOURCE.items()}, clock)
    fill(secondary, {prefix + name: side for name, side in TARGET.items()}, clock)
    pattern = prefix.replace(".", "[.]") + ".*"
    link = {"from": "primary", "to": "secondary", "topics": [pattern, prefix + "gone"]}
    drctl = new_drctl({"main": link})
    return drctl.config


@pytest.fixture(scope="module")
def estimated(config: Path, prefix: str, primary: ClusterUnderTest) -> Estimated:
    found = Estimated(run(config, "-o", "json", "gap", "--scope", "estimate"), prefix)
    primary.close()
    return found


def test_an_estimate_is_no_proof(estimated: Estimated, config: Path) -> None:
    document = estimated.document
    assert estimated.ran.code == 5
    assert (document["complete"], document["scope"]) == (False, "estimate")
    assert document["assumed"] == ASSUMED
    assert not list(config.parent.glob(".drctl"))


def test_topics_without_a_gap(estimated: Estimated) -> None:
    assert estimated.missing("same") == (0, 0)
    assert estimated.missing("stopped", partition=1) == (0, 0)
    assert estimated.topics["same"][0]["diverges_from"] is None


def test_where_replication_stopped(estimated: Estimated, clock: Clock) -> None:
    assert estimated.missing("stopped") == (15, 15)
    assert estimated.second(clock, "stopped", "diverges_from") == 45
    assert estimated.second(clock, "stopped", "stopped_at") == 45


def test_equal_totals_hide_nothing(estimated: Estimated, clock: Clock) -> None:
    assert estimated.missing("went-on") == (10, 10)
    assert estimated.second(clock, "went-on", "diverges_from") == 50
    assert estimated.second(clock, "went-on", "stopped_at") is None
    assert estimated.topics["went-on"][0]["ahead_on_target"] == 10


def test_a_hole_is_found_in_time(estimated: Estimated, clock: Clock) -> None:
    about, at_most = estimated.missing("holes")
    assert (about, at_most) == (2, 2)
    assert estimated.second(clock, "holes", "diverges_from") == 500


def test_what_the_target_deleted_is_no_gap(estimated: Estimated, clock: Clock) -> None:
    assert estimated.missing("deleted-there") == (5, 5)
    assert estimated.second(clock, "deleted-there", "stopped_at") == 55
    assert "deleted_on_target" in estimated.topics["deleted-there"][0]["uncertainty"]


def test_a_target_with_its_own_clock(estimated: Estimated) -> None:
    assert estimated.missing("own-clock") == (10, 60)
    assert "times_not_comparable" in estimated.topics["own-clock"][0]["uncertainty"]


def test_a_topic_that_is_not_there(estimated: Estimated, clock: Clock, prefix: str) -> None:
    assert estimated.missing("not-there") == (3, 3)
    assert estimated.topics["not-there"][0]["target_range"] is None
    (item,) = estimated.document["not_compared"]
    assert item["topic"] == prefix + "gone"


def test_control_records_are_not_taken_for_losses(estimated: Estimated) -> None:
    found = estimated.topics["transactions"][0]
    assert found["source_offsets"] == 72
    assert found["target_offsets"] == 55
    assert found["missing_at_least"] == 0
    # A control record may be written after the time that the next records were given.
    assert found["missing_estimate"] <= 6, found
    assert "transactions" in found["uncertainty"]


def test_records_older_than_their_transaction_seem_missing_but_not_for_sure(
    estimated: Estimated,
) -> None:
    """A control record has the time of the commit, and what follows it stands behind that."""
    found = estimated.topics["old-times"][0]
    assert found["missing_at_least"] == 0
    assert found["missing_at_most"] >= found["missing_estimate"]
    assert "transactions" in found["uncertainty"]


def test_an_open_transaction_is_undecided(estimated: Estimated) -> None:
    found = estimated.topics["open"][0]
    assert found["undecided"] == 5
    assert found["missing_estimate"] == 0


def test_the_text_says_since_when_and_that_it_is_no_proof(config: Path, prefix: str) -> None:
    ran = run(config, "gap", "--scope", "estimate", "--topic", f"{prefix}stopped")
    assert ran.code == 5
    first, *lines = ran.stdout.splitlines()
    assert first.startswith(f"Estimate: about 15 records of topic {prefix}stopped are missing on")
    assert first.endswith("run drctl gap --scope tail or full.")
    assert any(
        f"Replication of {prefix}stopped-0 stopped: about 15 records since" in x for x in lines
    )
    assert f"drctl gap --scope full --topic {prefix}stopped" in ran.stdout


def test_a_cluster_that_does_not_answer(config: Path, tmp_path: Path) -> None:
    import yaml

    document = yaml.safe_load(config.read_text(encoding="utf-8"))
    document["clusters"]["secondary"]["bootstrap"] = "127.0.0.1:1"
    broken = tmp_path / "drctl.yaml"
    broken.write_text(yaml.safe_dump(document), encoding="utf-8")
    ran = run(broken, "-o", "json", "gap", "--scope", "estimate")
    assert ran.code == 5
    assert json.loads(ran.stdout)["error"]["kind"] == "Unreachable"
