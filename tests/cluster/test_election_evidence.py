"""Evidence of where a lost log ended: a replicator, groups and the engineer, on the real lab."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from drctl.app.election_adapters import gather, known_ends
from drctl.config.loading import load
from drctl.model.errors import Unreachable, UsageError
from drctl.model.topology import Record, TopicPartition
from tests.cluster.groups import commit_offsets
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
    commit_offsets(primary, topic, {f"of-{topic}": {0: 17}})
    config = load(lab_yaml(topic))

    def copied_to() -> list[int]:
        found = gather(config, "primary", topic, [0], {})
        return [each.copied_to for each in found.evidence if each.copied]

    # Connect stores the connector's offset a second after it replicated.
    soon(lambda: max(copied_to(), default=0) == COPIED)
    found = gather(config, "primary", topic, [0], {0: 99})
    by_words = {each.message: (each.place, each.copied_to, each.exact) for each in found.evidence}
    assert by_words[f"group of-{topic} has read up to 17"] == (place, 17, False)
    assert by_words["given as the log end with --known-end"] == (place, 99, True)
    assert [(row.group, row.offset) for row in found.groups[place]] == [(f"of-{topic}", 17)]
    assert any(words.startswith(f"copied to secondary up to {COPIED} (") for words in by_words)


def test_groups_of_a_coordinator_that_is_starting_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No broker lists them, and none reports an error."""

    def listed(*, incomplete: bool) -> tuple[str, ...]:
        if not incomplete:
            raise Unreachable("a coordinator is loading")
        return ()

    groups = SimpleNamespace(groups=listed, committed=lambda names: {})
    leaders = SimpleNamespace(look=lambda topics: SimpleNamespace(leaderless=[]))
    reader = SimpleNamespace(elections=nullcontext(leaders), groups=nullcontext(groups))
    monkeypatch.setattr("drctl.app.adapters.reader", lambda *_: reader)
    (tmp_path / "drctl.yaml").write_text("clusters:\n  a: {bootstrap: 127.0.0.1:1}\n")
    assert gather(load(tmp_path / "drctl.yaml"), "a", "t", [0], {}).silent == [
        "some groups on a may be missing from the list: a coordinator is loading; try again"
    ]


def test_groups_of_a_coordinator_that_is_down_are_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The other brokers do not list them, so nothing else shows that evidence is missing."""
    down = [TopicPartition("__consumer_offsets", 3)]
    reader = SimpleNamespace(
        elections=nullcontext(
            SimpleNamespace(look=lambda topics: SimpleNamespace(leaderless=down))
        ),
        groups=nullcontext(
            SimpleNamespace(groups=lambda incomplete: (), committed=lambda names: {})
        ),
    )
    monkeypatch.setattr("drctl.app.adapters.reader", lambda *_: reader)
    (tmp_path / "drctl.yaml").write_text("clusters:\n  a: {bootstrap: 127.0.0.1:1}\n")
    config = load(tmp_path / "drctl.yaml")
    silent = (
        "groups whose coordinator on a was down: 1 partition of __consumer_offsets had no leader"
    )
    assert gather(config, "a", "t", [0], {}).silent == [f"{silent}; try again"]
    down.clear()
    assert gather(config, "a", "t", [0], {}).silent == []


@pytest.mark.parametrize("given", ["0", "0=", "=5", "0=x", "-1=5", "1=5"])
def test_stated_end_offsets_that_are_wrong(given: str) -> None:
    assert known_ends(["0=5"], [0]) == {0: 5}
    with pytest.raises(UsageError, match="--known-end"):
        known_ends([given], [0])
