"""The translated properties in a real Java client, the one that Spark uses."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from bench.java_machine import SPARK_JARS, java_machine
from drctl.artifacts.jars import resolve
from drctl.kafka.java_properties import java_properties
from tests.kafka.conftest import Bench
from tests.kafka.tls_broker import TlsCluster

pytestmark = pytest.mark.jvm

BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@pytest.fixture(scope="module")
def java() -> Iterator[Any]:
    """A Java process with Spark's Kafka client."""
    connector = resolve("spark-connector", progress=logging.getLogger("tests").info)
    with java_machine([*connector, f"{SPARK_JARS}/*"]) as machine:
        yield machine


def read_with_java(java: Any, properties: dict[str, str], topic: str) -> list[bytes]:
    """All values of partition 0 of a topic with one record."""
    given = java.java.util.Properties()
    for key, value in java_properties(properties).items():
        given.setProperty(key, value)
    for part in ("key", "value"):
        given.setProperty(f"{part}.deserializer", BYTES)
    given.setProperty("default.api.timeout.ms", "15000")
    consumer = java.org.apache.kafka.clients.consumer.KafkaConsumer(given)
    try:
        partition = java.org.apache.kafka.common.TopicPartition(topic, 0)
        partitions = java.java.util.Collections.singletonList(partition)
        consumer.assign(partitions)
        consumer.seekToBeginning(partitions)
        records = consumer.poll(java.java.time.Duration.ofSeconds(15))
        return [bytes(record.value()) for record in records.records(partition)]
    finally:
        consumer.close()


@pytest.fixture(scope="module")
def topic(bench: Bench) -> str:
    name = bench.create(replicas=[[1]])
    bench.produce(name, {"value": b"seen"})
    return name


@pytest.mark.parametrize(("user", "mechanism"), [("bob", "PLAIN"), ("admin", "SCRAM-SHA-512")])
def test_sasl_over_tls(
    java: Any, cluster: TlsCluster, bench: Bench, topic: str, user: str, mechanism: str
) -> None:
    bench.allow(user, topic)
    assert read_with_java(java, cluster.tls_properties(user, mechanism), topic) == [b"seen"]


@pytest.mark.parametrize(
    "form",
    [
        ("pkcs8", "-topk8", "-nocrypt"),
        ("pkcs8", "-topk8", "-passout", "pass:geheim"),
        ("rsa", "-traditional"),
    ],
)
def test_a_client_certificate_whatever_the_form_of_its_key(
    java: Any, cluster: TlsCluster, topic: str, form: tuple[str, ...]
) -> None:
    properties = {
        **cluster.mtls_properties(),
        "ssl.key.location": str(cluster.alice.rewritten_key(*form)),
        "ssl.key.password": "geheim",
    }
    assert read_with_java(java, properties, topic) == [b"seen"]


def test_java_trusts_no_other_authority(java: Any, cluster: TlsCluster, topic: str) -> None:
    properties = cluster.tls_properties()
    own = cluster.alice.chain.read_text()
    with pytest.raises(Py4JJavaError, match="SSL handshake failed"):
        read_with_java(java, {**properties, "ssl.ca.location": "", "ssl.ca.pem": own}, topic)
