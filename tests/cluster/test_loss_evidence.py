"""Evidence of the loss on the surviving cluster and this host: real examples of each kind."""

import time
from collections.abc import Iterator

import pytest

from drctl.app.link_reader import ClusterLinkReader
from drctl.app.loss import LossReader
from drctl.config.loading import load
from drctl.formats import heartbeats
from drctl.lab.lab import Lab
from drctl.model.topology import Record, TopicPartition
from tests.cluster.failover_stage import mirror_maker
from tests.cluster.groups import commit_offsets
from tests.cluster.lab_link import NewDrctl, link_over
from tests.cluster.link_command import GO, soon
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

HEARTBEATS = "primary.heartbeats"
RECORDS = 60


@pytest.fixture
def beats(secondary: ClusterUnderTest) -> Iterator[int]:
    """Replicated heartbeats; returns when the newest was sent, milliseconds UTC."""
    newest = round(time.time() * 1000)
    secondary.create_topic(HEARTBEATS, 1, {"cleanup.policy": "compact"})
    key = heartbeats.encode_key(heartbeats.Flow("secondary", "primary"))
    values = [heartbeats.encode_value(newest - 1000), heartbeats.encode_value(newest), b"odd", None]
    secondary.produce(HEARTBEATS, [Record(0, -1, newest, key, value) for value in values])
    yield newest
    secondary.delete_topics([HEARTBEATS])


def test_each_piece_of_evidence_is_found(
    lab: Lab,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    new_topic: NewTopic,
    new_drctl: NewDrctl,
    beats: int,
) -> None:
    topic = new_topic(1, mirrored=True)
    values = [Record(0, -1, 1_000 + n, b"k", b"v%d" % n) for n in range(RECORDS)]
    primary.produce(topic, values)
    soon(lambda: secondary.end_offsets(topic)[0] == RECORDS)
    group, place = f"{topic}-app", TopicPartition(topic, 0)
    commit_offsets(primary, topic, {group: {0: RECORDS}})
    link = link_over(topic, groups=[group], replicator=mirror_maker(lab))
    drctl = new_drctl({"main": link})
    drctl.offsets.json("track", "--once", *GO)
    assert drctl.gap("--scope", "full", "--ledger").code == 0
    config = load(drctl.config)

    with ClusterLinkReader(config, config.link(None), lambda *_: (), lost=True) as reader:
        target = reader.cluster_reader("secondary")
        lost = LossReader(config, reader.link, target, [topic]).evidence_found()
        loss = reader.loss()
    seen = [each for each in lost.ends if place in each.seen]  # other tests leave evidence, too
    ends = {each.evidence.partition(",")[0]: each.seen[place].offset for each in seen}
    assert ends["groups observed by drctl offsets track"] == RECORDS
    assert ends["the ledger of drctl gap"] == RECORDS
    upto = {each.evidence: each.copied_to[place] for each in lost.copied}
    assert upto["offset syncs and later copies"] == RECORDS
    assert upto.get("Connect offsets of connector mm2-source", RECORDS) <= RECORDS
    signs = {each.evidence: each.at_ms for each in lost.signs}
    assert signs[f"the newest copied heartbeat, in {HEARTBEATS}"] == beats
    assert not lost.silent
    arrivals = lost.write_history[place]
    assert not arrivals.own, "timestamps of long ago were used instead of offset syncs"
    assert loss.records.at_least.records == 0
    assert loss.seconds is not None
    assert loss.seconds_at_most is not None
    assert loss.seconds <= loss.seconds_at_most
