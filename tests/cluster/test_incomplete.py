"""What drctl cannot see is listed, the rest is compared, and the exit code is 5."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.cluster.command import Drctl, Ended
from tests.cluster.conftest import NewDrctl, cluster_section, new_prefix
from tests.cluster.filling import Batch, Clock, Filling, copies, fill, holding, rows
from tests.cluster.scenario import partitions_of
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
        (
            Batch(rows(2), "commit"),
            Batch(rows(1, start=2), "open", LONG),
            Batch(rows(1, start=3)),
        )
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


def rule(topic: str, pattern: str, operation: str, permission: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType[pattern],
        f"User:{USER}",
        "*",
        AclOperation[operation],
        AclPermissionType[permission],
    )


def admit(cluster: ClusterUnderTest, prefix: str, not_readable: str, *hidden: str) -> None:
    """Let the user read all topics of the prefix but these."""
    rules = [
        rule(prefix, "PREFIXED", "READ", "ALLOW"),
        rule(prefix + not_readable, "LITERAL", "READ", "DENY"),
        *(rule(prefix + name, "LITERAL", "ALL", "DENY") for name in hidden),
    ]
    for future in cluster.admin.create_acls(rules).values():
        future.result()


def forget_rules(cluster: ClusterUnderTest, prefix: str) -> None:
    names = [(prefix, ResourcePatternType.PREFIXED)]
    names += [(prefix + name, ResourcePatternType.LITERAL) for name in SOURCE]
    filters = [
        AclBindingFilter(
            ResourceType.TOPIC,
            name,
            pattern,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for name, pattern in names
    ]
    for future in cluster.admin.delete_acls(filters).values():
        future.result()


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
    """A user who may not do everything, and transactions that have not ended."""
    fill(primary, {prefix + name: side for name, side in SOURCE.items()}, clock)
    fill(secondary, {prefix + name: side for name, side in TARGET.items()}, clock)
    admit(primary, prefix, "not-readable", "hidden")
    admit(secondary, prefix, "not-readable-there")
    pattern = prefix.replace(".", "[.]") + ".*"
    link = {"from": "primary", "to": "secondary", "topics": [pattern, prefix + "hidden"]}
    clusters = {c.name: cluster_section(c, USER) for c in (primary, secondary)}
    yield new_drctl({"main": link}, clusters=clusters)
    for cluster in (primary, secondary):
        cluster.close()
        forget_rules(cluster, prefix)


@pytest.fixture(scope="module")
def ended(drctl: Drctl) -> Ended:
    return drctl.gap(name="all", options=())


def test_the_exit_code_says_that_not_all_is_known(ended: Ended) -> None:
    assert ended.code == 5, ended.stderr
    assert not ended.gap()["complete"]


def test_everything_that_was_not_compared_is_listed(ended: Ended, prefix: str) -> None:
    listed = {
        (item["topic"].removeprefix(prefix), item["partition"]): item["reason"]
        for item in ended.gap()["not_compared"]
    }
    assert listed.keys() == {("open-there", 0), *((name, None) for name in HIDDEN)}
    assert "secondary: an open transaction keeps 1 offsets" in listed["open-there", 0]
    assert "primary: not authorized to read" in listed["not-readable", None]
    assert "primary" in listed["hidden", None]
    assert "secondary: not authorized to read" in listed["not-readable-there", None]


def test_offsets_behind_the_last_stable_one_are_undecided(ended: Ended, prefix: str) -> None:
    (partition,) = partitions_of(ended.gap(), prefix + "open")
    assert partition["source_range"] == [0, 5]
    assert partition["undecided"] == 2
    assert partition["read_from_source"] == 2
    assert partition["ranges"] == [[1, 1]]


def test_a_copy_in_an_open_transaction_is_not_taken_for_one(ended: Ended, prefix: str) -> None:
    (partition,) = partitions_of(ended.gap(), prefix + "open-there")
    assert partition["read_from_target"] == 1
    assert partition["unreplicated"] == 2


def test_the_rest_is_compared(ended: Ended, prefix: str) -> None:
    (fine,) = partitions_of(ended.gap(), prefix + "fine")
    assert (fine["read_from_source"], fine["unreplicated"]) == (3, 0)
    (missing,) = partitions_of(ended.gap(), prefix + "some-missing")
    assert missing["ranges"] == [[1, 2]]


def test_a_configuration_that_may_not_be_read_is_said_to_be_guessed(
    ended: Ended, prefix: str
) -> None:
    (topic,) = (t for t in ended.gap()["topics"] if t["topic"] == prefix + "its-own-clock")
    assert any("configuration may not be read" in note for note in topic["notes"])
    assert topic["partitions"][0]["unreplicated"] == 3


def test_people_are_told_first_that_it_is_not_complete(ended: Ended, prefix: str) -> None:
    assert "Not complete" in ended.stdout.splitlines()[0]
    for name in ("open-there", *HIDDEN):
        assert prefix + name in ended.stdout
    assert "\x1b" not in ended.stdout


def test_one_topic_of_it_that_is_whole(drctl: Drctl, prefix: str) -> None:
    ended = drctl.gap("--topic", prefix + "fine", name="one")
    assert ended.code == 0, ended.stderr
    document = ended.document()
    assert document["complete"]
    assert [t["topic"] for t in document["topics"]] == [prefix + "fine"]
    assert document["totals"]["read_from_source"] == 3
    assert document["totals"]["unreplicated"] == 0
