"""A partition without leader, in a cluster that speaks TLS."""

import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AdminClient,
    NewTopic,
)

from tests.cluster.command import Drctl, Ended
from tests.cluster.filling import Clock
from tests.cluster.scenario import partitions_of
from tests.cluster.site import link_over
from tests.kafka.tls_broker import ADMIN, PASSWORDS, TlsCluster
from tests.lab.cluster_under_test import QUIET

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

TOPIC, COPY = "led", "copy.led"


@pytest.fixture(scope="module")
def limping(tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[TlsCluster]:
    """Partition 1 of the source lives on broker 2, which is dead; all else on broker 1."""
    cluster = TlsCluster(tmp_path_factory.mktemp("limping"))
    try:
        cluster.start()
        fill(cluster.properties(), {TOPIC: [[1], [2]], COPY: [[1], [1]]}, clock)
        cluster.signal(2, signal.SIGKILL)
        cluster.wait_for_brokers(1)
        yield cluster
    finally:
        cluster.close()


def fill(properties: dict[str, str], topics: Mapping[str, list[list[int]]], clock: Clock) -> None:
    """Three records in each partition of the source, two in each of the copy."""
    admin = AdminClient(properties, logger=QUIET)
    # Records that are sent again must not change places: which one is missing is what is asked.
    producer = Producer({**properties, "enable.idempotence": "true"}, logger=QUIET)
    new = [NewTopic(name, len(r), replica_assignment=r) for name, r in topics.items()]
    for future in admin.create_topics(new, operation_timeout=20).values():
        future.result()
    for name, count in ((TOPIC, 3), (COPY, 2)):
        for partition in (0, 1):
            for n in range(count):
                producer.produce(
                    name, b"value", b"key-%d" % n, partition=partition, timestamp=clock.at(n)
                )
    assert producer.flush(30) == 0


def configuration(cluster: TlsCluster) -> dict[str, Any]:
    """A drctl.yaml that compares the topic with its copy in the same cluster, seen through TLS."""
    link = link_over(TOPIC, replicator={"kind": "none", "rename": "copy.${topic}"})
    return {
        "clusters": {
            "primary": section(cluster.properties()),
            "secondary": section(cluster.tls_properties()),
        },
        "links": {"main": link},
    }


def section(properties: Mapping[str, str]) -> dict[str, Any]:
    """A cluster in drctl.yaml."""
    kept = {k: v for k, v in properties.items() if k != "bootstrap.servers"}
    return {
        "bootstrap": properties["bootstrap.servers"],
        "properties": {**kept, "sasl.password": "${env:PASSWORD}"},
    }


@pytest.fixture(scope="module")
def ended(limping: TlsCluster, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder: Path = tmp_path_factory.mktemp("drctl")
    config = folder / "drctl.yaml"
    config.write_text(yaml.safe_dump(configuration(limping)), encoding="utf-8")
    return Drctl(folder, config).gap(environ={"PASSWORD": PASSWORDS[ADMIN]})


def test_a_partition_without_leader_is_not_compared(ended: Ended) -> None:
    assert ended.code == 5, ended.stderr
    document = ended.gap()
    assert not document["complete"]
    (item,) = document["not_compared"]
    assert (item["topic"], item["partition"]) == (TOPIC, 1)
    assert item["reason"] == "primary: the partition has no leader"


def test_the_other_partition_is(ended: Ended) -> None:
    zero = partitions_of(ended.gap(), TOPIC)[0]
    assert zero["partition"] == 0
    assert zero["ranges"] == [[2, 2]]
    assert zero["read_from_source"] == 3


def test_nothing_is_said_about_the_records_of_the_partition_without_leader(ended: Ended) -> None:
    said = [p for p in partitions_of(ended.gap(), TOPIC) if p["partition"] == 1]
    assert not any(p["unreplicated"] or p["only_on_target"] for p in said)
