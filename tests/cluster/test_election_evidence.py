"""Evidence of where a lost log ended: a replicator, groups and the engineer, on the real lab."""

from collections.abc import Callable
from pathlib import Path

import pytest

from drctl.app.election_adapters import gather, known_ends
from drctl.config.loading import load
from drctl.model.errors import UsageError
from drctl.model.topology import Record, TopicPartition
from tests.cluster.groups import stand
from tests.cluster.link_command import soon
from tests.conftest import NewTopic
from tests.lab.cluster_under_test import ClusterUnderTest

COPIED = 40


@pytest.mark.jvm
def test_evidence_from_replicas_and_groups(
    new_topic: NewTopic,
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    lab_yaml: Callable[..., Path],
) -> None:
    topic = new_topic(mirrored=True)
    place = TopicPartition(topic, 0)
    primary.produce(topic, [Record(0, 0, 0, b"k", b"v") for _ in range(COPIED)])
    soon(lambda: secondary.end_offsets(topic) == {0: COPIED})
    stand(primary, topic, {f"of-{topic}": {0: 17}})
    config = load(lab_yaml(topic))

    def told() -> list[int]:
        found = gather(config, "primary", topic, [0], {})
        return [each.copied_to for each in found.evidence if each.copied]

    # Connect keeps the connector's own position a second after it copied.
    soon(lambda: max(told(), default=0) == COPIED)
    found = gather(config, "primary", topic, [0], {0: 99})
    by_words = {each.message: (each.place, each.copied_to, each.exact) for each in found.evidence}
    assert by_words[f"group of-{topic} has read up to 17"] == (place, 17, False)
    assert by_words["given as the log end with --known-end"] == (place, 99, True)
    assert [(row.group, row.offset) for row in found.groups[place]] == [(f"of-{topic}", 17)]
    assert any(words.startswith(f"copied to secondary up to {COPIED} (") for words in by_words)


@pytest.mark.parametrize("given", ["0", "0=", "=5", "0=x", "-1=5", "1=5"])
def test_stated_end_offsets_that_are_wrong(given: str) -> None:
    assert known_ends(["0=5"], [0]) == {0: 5}
    with pytest.raises(UsageError, match="--known-end"):
        known_ends([given], [0])
