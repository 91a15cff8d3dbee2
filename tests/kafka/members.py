"""Real members of real groups, of every protocol that the clients support."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, ShareConsumer, TopicPartition

from drctl.lab.waiting import Patience

QUIET = logging.getLogger("tests.kafka")
QUIET.addHandler(logging.NullHandler())
JOIN_S = 30.0


@contextmanager
def member(
    properties: Mapping[str, str],
    group: str,
    topic: str,
    protocol: str = "classic",
    join_s: float = JOIN_S,
) -> Iterator[Consumer]:
    """A member that reads a topic and leaves the group at the end."""
    settings = {"group.protocol": protocol, "enable.auto.commit": "false"}
    if protocol == "classic":
        settings["session.timeout.ms"] = "6000"
    consumer = Consumer({**properties, "group.id": group, **settings}, logger=QUIET)
    try:
        consumer.subscribe([topic])

        def joined() -> bool:
            consumer.poll(0.05)
            return bool(consumer.assignment())

        assert Patience.of(join_s).wait_until(joined), f"nobody joined {group}"
        yield consumer
    finally:
        consumer.close()


@contextmanager
def share_member(properties: Mapping[str, str], group: str, topic: str) -> Iterator[None]:
    """A member of a share group."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        consumer = ShareConsumer({**properties, "group.id": group, "log_level": "0"})
    try:
        consumer.subscribe([topic])
        for _ in range(5):
            consumer.poll(0.2)
        yield
    finally:
        consumer.close()


def commit(properties: Mapping[str, str], group: str, *positions: TopicPartition) -> None:
    """Commit as confluent-kafka does, without joining."""
    consumer = Consumer({**properties, "group.id": group}, logger=QUIET)

    def committed() -> bool:
        """False while the first coordinator of a new cluster reads its log."""
        try:
            consumer.commit(offsets=list(positions), asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                raise
            return False
        return True

    try:
        assert Patience.of(JOIN_S).wait_until(committed)
    finally:
        consumer.close()
