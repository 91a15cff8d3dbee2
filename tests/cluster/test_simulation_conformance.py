"""Real clusters, Connect and MirrorMaker 2 answer as the simulated ones of tests/simulation do."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import pytest
from confluent_kafka import KafkaError

from drctl.app.link_reader import ClusterLinkReader
from drctl.app.link_writer import ClusterLinkWriter
from drctl.app.prechecks import run_prechecks
from drctl.config.loading import load
from drctl.kafka.connection import Connection
from drctl.kafka.journal_topic import HeldRun, JournalTopic
from drctl.lab.waiting import Patience
from drctl.model.topology import Record, TopicPartition
from tests.cluster.failover_stage import APP, Stage
from tests.cluster.isolated_links import OwnLinks
from tests.kafka.journal_place import BEAT_S, holder
from tests.kafka.members import member
from tests.lab.cluster_under_test import ClusterUnderTest
from tests.simulation.conformance import differences, text

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SOON_S = 60.0


class Real:
    """Implements `tests.simulation.conformance.Side`."""

    source, target, principal = "primary", "secondary", f"User:{APP}"

    def __init__(self, stage: Stage, reader: ClusterLinkReader) -> None:
        self.stage, self.reader, self.connector = stage, reader, stage.copies
        self.places = (TopicPartition(stage.topic, 0), TopicPartition(stage.topic, 1))
        self.group, self.new_group = stage.group, f"{stage.group}-new"
        self.journal = f"__journal-{stage.topic}"
        given = reader.commands, None, reader.elected, reader.committed
        self.writer = ClusterLinkWriter(reader.config, reader.link, stage.drctl.folder, *given)

    def soon(self, seen: Callable[[], bool]) -> bool:
        return Patience.of(SOON_S).wait_until(seen)

    def write(self, cluster: str, place: TopicPartition, *keys: str) -> int:
        errors: list[KafkaError | None] = []
        producer = self._cluster(cluster).producer(APP)
        for key in keys:
            noted = lambda error, _: errors.append(error)  # noqa: E731
            producer.produce(place.topic, key, key, place.partition, on_delivery=noted)
        assert producer.flush(SOON_S) == 0
        refused = {each.code() for each in errors if each is not None}
        assert refused <= {KafkaError.TOPIC_AUTHORIZATION_FAILED}, refused
        return sum(each is None for each in errors)

    def transaction(
        self, cluster: str, place: TopicPartition, keys: Sequence[str], *, commit: bool
    ) -> None:
        self._cluster(cluster).produce(
            place.topic, _records(place, keys), "commit" if commit else "abort"
        )

    @contextmanager
    def open_transaction(self, cluster: str, place: TopicPartition, key: str) -> Iterator[None]:
        there = self._cluster(cluster)
        there.produce(place.topic, _records(place, [key]), "open")
        yield
        there.close()

    def member(self, cluster: str) -> AbstractContextManager[object]:
        properties = self._cluster(cluster).properties()
        return member(properties, self.group, self.stage.topic)

    def direct_to(self, cluster: str) -> None:
        self.stage.direct_to(cluster)

    def acquire(self, run: str, *, resume: bool = False, abandoning: str = "") -> HeldRun:
        journal, by = self._journal(), holder(run)
        return journal.resume(by) if resume else journal.acquire(by, abandoning)

    def hang(self, held: HeldRun) -> None:
        assert held._beats.stop(SOON_S)

    def runs(self) -> Sequence[str]:
        return self._journal().runs()

    def _journal(self) -> JournalTopic:
        properties = self.stage.target.properties()
        connection = Connection(self.target, properties, SOON_S)
        return JournalTopic(connection, self.stage.link, topic=self.journal, beat_s=BEAT_S)

    def _cluster(self, name: str) -> ClusterUnderTest:
        found: ClusterUnderTest = getattr(self.stage, name)
        return found


def _records(place: TopicPartition, keys: Sequence[str]) -> list[Record]:
    return [Record(place.partition, -1, -1, key.encode(), key.encode(), ()) for key in keys]


def test_real_parts_answer_as_the_simulated_ones_do(
    links: OwnLinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = links.make()
    monkeypatch.chdir(stage.drctl.folder)
    config = load(stage.drctl.config)
    with ClusterLinkReader(config, config.link(stage.link), run_prechecks) as reader:
        side = Real(stage, reader)
        try:
            wrong = differences(side)
        finally:
            stage.target.delete_topics([side.journal])
    assert not wrong, text(wrong)
