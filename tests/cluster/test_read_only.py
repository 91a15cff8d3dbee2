"""`drctl gap` changes nothing on either cluster, although brokers create topics on demand."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)

from drctl.lab.lab import Lab
from tests.cluster.command import Ended
from tests.cluster.lab_link import WAYS, NewDrctl
from tests.cluster.link_command import soon
from tests.cluster.scenario import Analysed
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

TRAPS = ("same", "not-on-the-target", "three-equal-records", "transactions")
EVERY_RULE = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


class Everything(NamedTuple):
    """The state of a cluster as far as a client can change it.

    Attributes:
        logs: start and end offset of every partition, including internal topics.
    """

    logs: Mapping[tuple[str, int], tuple[int, int]]
    configs: Mapping[str, Mapping[str, str | None]]
    groups: frozenset[tuple[str, str]]
    acls: frozenset[str]


Look = Callable[[], tuple[Everything, ...]]


def everything(cluster: ClusterUnderTest) -> Everything:
    """Read it without any code of drctl."""
    admin = cluster.admin
    topics = admin.list_topics(timeout=20).topics
    places = [TopicPartition(name, n) for name, t in topics.items() for n in t.partitions]
    starts = admin.list_offsets({p: OffsetSpec.earliest() for p in places})
    ends = admin.list_offsets({p: OffsetSpec.latest() for p in places})
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    return Everything(
        {
            (p.topic, p.partition): (starts[p].result().offset, ends[p].result().offset)
            for p in places
        },
        {
            resource.name: {key: entry.value for key, entry in future.result().items()}
            for resource, future in admin.describe_configs(resources).items()
        },
        frozenset(
            (group.group_id, str(group.state))
            for group in admin.list_consumer_groups().result().valid
        ),
        frozenset(map(str, admin.describe_acls(EVERY_RULE).result())),
    )


@pytest.fixture(scope="module")
def quiet(lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest) -> Iterator[Look]:
    """Read both clusters while only the test uses them."""
    lab.replicate(False)

    def look() -> tuple[Everything, ...]:
        return tuple(map(everything, (primary, secondary)))

    try:
        soon(lambda: look() == look(), "the clusters do not calm down")
        yield look
    finally:
        lab.replicate(True)


Looked = tuple[tuple[Everything, ...], Ended, tuple[Everything, ...]]


@pytest.fixture(scope="module", params=WAYS)
def looked(
    request: pytest.FixtureRequest, quiet: Look, traps: Analysed, new_drctl: NewDrctl
) -> Looked:
    """Both clusters before and after a run, with Spark and without."""
    drctl = new_drctl({"main": traps.scenario.link}, **WAYS[request.param])
    words = [word for name in TRAPS for word in ("--topic", traps.scenario.topic(name))]
    before = quiet()
    ended = drctl.gap(*words)
    return before, ended, quiet()


def test_nothing_has_changed(looked: Looked, traps: Analysed) -> None:
    before, ended, after = looked
    assert ended.code == 1, ended.stderr
    absent = traps.scenario.topic("not-on-the-target")
    assert absent in before[0].configs
    assert absent not in before[1].configs
    for was, now in zip(before, after, strict=True):
        assert now.logs == was.logs
        assert now.configs == was.configs
        assert now.groups == was.groups
        assert now.acls == was.acls


def test_the_brokers_would_have_created_topics(quiet: Look, secondary: ClusterUnderTest) -> None:
    """A change was possible, and would have been noticed."""
    before = quiet()
    try:
        # The lab's own client requests metadata without auto-creation; this one allows it.
        AdminClient(secondary.properties(), logger=QUIET).list_topics(
            "created-by-asking", timeout=20
        )
        soon(lambda: "created-by-asking" in quiet()[1].configs)
        assert quiet() != before
    finally:
        secondary.delete_topics(["created-by-asking"])
