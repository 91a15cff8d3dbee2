"""What drctl cannot read is listed, the rest is compared, and the exit code is 5."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType  # type: ignore[attr-defined, unused-ignore]

from tests.cluster.command import Drctl, Ended
from tests.cluster.filling import Batch, Clock, Filling, copies, fill, holding, rows
from tests.cluster.lab_link import NewDrctl, cluster_section, link_over, new_prefix
from tests.cluster.scenario import partitions_of
from tests.cluster.topic_acls import about, forget, grant, revoke, rule
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

USER = "orders-app"
LONG = {"transaction__timeout__ms": "600000"}
THREE = tuple(rows(3))
HIDDEN = ("not-readable", "hidden", "not-readable-there")

SOURCE = {
    "fine": holding(*THREE),
    "some-missing": holding(*THREE),
    "its-own-clock": holding(*THREE),
    "open": Filling(
        (Batch(rows(2), "commit"), Batch(rows(1, start=2), "open", LONG), Batch(rows(1, start=3)))
    ),
    "open-there": holding(*THREE),
    **dict.fromkeys(HIDDEN, holding(*THREE)),
}
TARGET = {
    "fine": holding(*copies(THREE)),
    "some-missing": holding(*copies(THREE[:1])),
    "its-own-clock": holding(*copies(THREE), config={"message.timestamp.type": "LogAppendTime"}),
    "open": holding(*copies(rows(1))),
    "open-there": Filling((Batch(copies(THREE[:1])), Batch(copies(THREE[1:2]), "open", LONG))),
    **dict.fromkeys(HIDDEN, holding(*copies(THREE))),
}


def admit(cluster: ClusterUnderTest, prefix: str, not_readable: str, *hidden: str) -> None:
    """Let the user read all topics with the prefix except these."""
    read, all_ = AclOperation.READ, AclOperation.ALL
    grant(
        cluster,
        rule(USER, prefix, read, pattern=ResourcePatternType.PREFIXED),
        rule(USER, prefix + not_readable, read, deny=True),
        *(rule(USER, prefix + name, all_, deny=True) for name in hidden),
    )


def forget_rules(cluster: ClusterUnderTest, prefix: str) -> None:
    forget(cluster, *(prefix + name for name in SOURCE))
    revoke(cluster, about(prefix, pattern=ResourcePatternType.PREFIXED))


@pytest.fixture(scope="module")
def prefix() -> str:
    return new_prefix()


@pytest.fixture(scope="module")
def drctl(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    clock: Clock,
    prefix: str,
    new_drctl: NewDrctl,
) -> Iterator[Drctl]:
    """A user without some permissions, and open transactions."""
    fill(primary, {prefix + name: side for name, side in SOURCE.items()}, clock)
    fill(secondary, {prefix + name: side for name, side in TARGET.items()}, clock)
    admit(primary, prefix, "not-readable", "hidden")
    admit(secondary, prefix, "not-readable-there")
    pattern = prefix.replace(".", "[.]") + ".*"
    link = link_over(pattern, prefix + "hidden")
    clusters = {c.name: cluster_section(c, USER) for c in (primary, secondary)}
    yield new_drctl({"main": link}, clusters=clusters)
    for cluster in (primary, secondary):
        cluster.close()
        forget_rules(cluster, prefix)


@pytest.fixture(scope="module")
def ended(drctl: Drctl) -> Ended:
    return drctl.gap(name="all", options=())


def test_everything_that_was_not_compared_is_listed(ended: Ended, prefix: str) -> None:
    assert ended.code == 5, ended.stderr
    assert not ended.gap()["complete"]
    listed = {
        (item["topic"].removeprefix(prefix), item["partition"]): item["reason"]
        for item in ended.gap()["not_compared"]
    }
    assert listed.keys() == {("open-there", 0), *((name, None) for name in HIDDEN)}
    assert (
        "secondary: open transaction: 1 offset from 1 on cannot be read" in listed["open-there", 0]
    )
    assert "primary: not authorized to read" in listed["not-readable", None]
    assert "primary" in listed["hidden", None]
    assert "secondary: not authorized to read" in listed["not-readable-there", None]


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        pytest.param(
            "open",
            {"source_range": [0, 5], "undecided": 2, "read_from_source": 2, "ranges": [[1, 1]]},
            id="records-after-the-last-stable-offset-are-undecided",
        ),
        pytest.param(
            "open-there",
            {"read_from_target": 1, "unreplicated": 2},
            id="a-copy-in-an-open-transaction-does-not-count",
        ),
        ("fine", {"read_from_source": 3, "unreplicated": 0}),
        ("some-missing", {"ranges": [[1, 2]]}),
        ("its-own-clock", {"unreplicated": 3}),
    ],
)
def test_the_rest_is_compared(
    ended: Ended, prefix: str, topic: str, expected: dict[str, Any]
) -> None:
    (partition,) = partitions_of(ended.gap(), prefix + topic)
    assert {name: partition[name] for name in expected} == expected


def test_an_unreadable_topic_configuration_is_reported_as_assumed(
    ended: Ended, prefix: str
) -> None:
    (topic,) = (t for t in ended.gap()["topics"] if t["topic"] == prefix + "its-own-clock")
    assert any("configuration is not readable" in note for note in topic["notes"])


def test_the_text_begins_with_not_complete(ended: Ended, prefix: str) -> None:
    assert "Not complete" in ended.stdout.splitlines()[0]
    for name in ("open-there", *HIDDEN):
        assert prefix + name in ended.stdout
    assert "\x1b" not in ended.stdout


def test_a_topic_that_is_complete_in_an_incomplete_result(drctl: Drctl, prefix: str) -> None:
    ended = drctl.gap("--topic", prefix + "fine", name="one")
    assert ended.code == 0, ended.stderr
    document = ended.document()
    assert document["complete"]
    assert [t["topic"] for t in document["topics"]] == [prefix + "fine"]
    assert document["totals"]["read_from_source"] == 3
    assert document["totals"]["unreplicated"] == 0
