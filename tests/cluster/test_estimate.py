"""`drctl gap --scope estimate` on real brokers: no record is read, and ground truth is close."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from drctl.model.estimate import ASSUMED
from drctl.model.topology import Record
from tests.cli.conftest import Ran
from tests.cli.documents import check
from tests.cluster.command import Drctl
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
from tests.cluster.lab_link import NewDrctl, link_over, new_prefix
from tests.cluster.link_command import soon
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

MANY = tuple(rows(60))
OWN = {"message.timestamp.type": "LogAppendTime"}


def in_transactions(cluster: ClusterUnderTest, topic: str) -> None:
    """Write twelve transactions, one of them aborted, with the times of their records."""
    for n in range(12):
        records = [Record(0, 0, int(time.time() * 1000), b"%d" % n, b"v") for _ in range(5)]
        cluster.produce(topic, records, "abort" if n == 3 else "commit")
        # Kafka writes the control record after it has answered; later records would be older.
        soon(lambda end=6 * (n + 1): cluster.end_offsets(topic) == {0: end})  # type: ignore[misc]
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
    """The result, by topic without its prefix."""

    def __init__(self, ran: Ran, prefix: str) -> None:
        self.ran = ran
        self.document = check(ran.document())
        self.topics = {
            topic["topic"].removeprefix(prefix): topic["partitions"]
            for topic in self.document["topics"]
        }

    def missing(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """Return the estimate and the upper bound; there is a lower bound if no transaction ran."""
        found = self.topics[topic][partition]
        at_least, about = found["missing_at_least"], found["missing_estimate"]
        assert at_least == (0 if "transactions" in found["uncertainty"] else about)
        return about, found["missing_at_most"]

    def second(self, clock: Clock, topic: str, field: str) -> float | None:
        """Return a time in seconds of the scenario's clock."""
        found: Mapping[str, Any] | None = self.topics[topic][0][field]
        return None if found is None else (found["ms"] - clock.start_ms) / 1000


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
    return new_drctl({"main": link_over(pattern, prefix + "gone")}).config


@pytest.fixture(scope="module")
def estimated(config: Path, prefix: str, primary: ClusterUnderTest) -> Estimated:
    found = Estimated(
        Drctl(config.parent, config)("-o", "json", "gap", "--scope", "estimate"), prefix
    )
    primary.close()
    return found


def test_an_estimate_is_no_proof(estimated: Estimated, config: Path) -> None:
    document = estimated.document
    assert estimated.ran.code == 5
    assert (document["complete"], document["scope"]) == (False, "estimate")
    assert document["assumed"] == ASSUMED
    assert not list(config.parent.glob(".drctl"))


ESTIMATES = {
    "same": (0, 0),
    "stopped": (15, 15),
    "went-on": (10, 10),
    "holes": (2, 2),
    "deleted-there": (5, 5),
    "own-clock": (10, 60),
    "not-there": (3, 3),
}
"""The estimate and the upper bound. Equal totals do not hide a loss, and records deleted only on
the target are no gap."""


@pytest.mark.parametrize("topic", ESTIMATES)
def test_the_number_of_unreplicated_records(estimated: Estimated, topic: str) -> None:
    assert estimated.missing(topic) == ESTIMATES[topic]


@pytest.mark.parametrize(
    ("topic", "field", "second"),
    [
        ("same", "diverges_from", None),
        ("stopped", "diverges_from", 45),
        ("stopped", "stopped_at", 45),
        ("went-on", "diverges_from", 50),
        ("went-on", "stopped_at", None),
        ("holes", "diverges_from", 500),
        ("deleted-there", "stopped_at", 55),
    ],
)
def test_the_time_of_the_oldest_unreplicated_record(
    estimated: Estimated, clock: Clock, topic: str, field: str, second: int | None
) -> None:
    assert estimated.second(clock, topic, field) == second


def test_other_facts_about_a_partition(estimated: Estimated) -> None:
    assert estimated.missing("stopped", partition=1) == (0, 0)
    assert estimated.topics["went-on"][0]["ahead_on_target"] == 10
    assert "deleted_on_target" in estimated.topics["deleted-there"][0]["uncertainty"]
    assert "times_not_comparable" in estimated.topics["own-clock"][0]["uncertainty"]


def test_a_missing_topic(estimated: Estimated, prefix: str) -> None:
    assert estimated.topics["not-there"][0]["target_range"] is None
    (item,) = estimated.document["not_compared"]
    assert item["topic"] == prefix + "gone"


def test_control_records_do_not_count_as_lost(estimated: Estimated) -> None:
    found = estimated.topics["transactions"][0]
    assert found["source_offsets"] == 72
    assert found["target_offsets"] == 55
    assert found["missing_at_least"] == 0
    assert found["missing_estimate"] == 0, found
    assert "transactions" in found["uncertainty"]


def test_records_older_than_their_transaction_are_undecided(estimated: Estimated) -> None:
    """A control record has the time of the commit, which later records may precede."""
    found = estimated.topics["old-times"][0]
    assert found["missing_at_least"] == 0
    assert found["missing_at_most"] >= found["missing_estimate"]
    assert "transactions" in found["uncertainty"]


def test_an_open_transaction_is_undecided(estimated: Estimated) -> None:
    found = estimated.topics["open"][0]
    assert found["undecided"] == 5
    assert found["missing_estimate"] == 0


def test_the_text_states_the_time_and_that_it_is_an_estimate(config: Path, prefix: str) -> None:
    ran = Drctl(config.parent, config)("gap", "--scope", "estimate", "--topic", f"{prefix}stopped")
    assert ran.code == 5
    first, *lines = ran.stdout.splitlines()
    assert first.startswith(
        f"Estimate: about 15 records of topic {prefix}stopped are not replicated to"
    )
    assert first.endswith("run drctl gap --scope tail or full.")
    assert any(
        f"Replication of {prefix}stopped-0 stopped: about 15 records since" in x for x in lines
    )
    assert f"drctl gap --scope full --topic {prefix}stopped" in ran.stdout


def test_an_unreachable_cluster(config: Path, tmp_path: Path) -> None:
    document = yaml.safe_load(config.read_text(encoding="utf-8"))
    document["clusters"]["secondary"]["bootstrap"] = "127.0.0.1:1"
    broken = tmp_path / "drctl.yaml"
    broken.write_text(yaml.safe_dump(document), encoding="utf-8")
    ran = Drctl(config.parent, broken)("-o", "json", "gap", "--scope", "estimate")
    assert ran.code == 5
    assert json.loads(ran.stdout)["error"]["kind"] == "Unreachable"
