"""Which groups a planned failover fences, with applications that read from the source."""

from contextlib import ExitStack

import pytest
from confluent_kafka import TopicPartition

from tests.cluster.failover_stage import APP
from tests.cluster.isolated_links import OwnLinks
from tests.cluster.killing import killed_at
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO
from tests.cluster.topic_acls import allow, denials, forget
from tests.kafka.members import commit, member

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


@pytest.mark.nightly
@pytest.mark.parametrize("groups", ["classic", "all", "none"])
def test_a_consumer_fence_denies_the_groups_that_its_setting_selects(
    site: Site, links: OwnLinks, groups: str
) -> None:
    fence = {"method": "acl", "principals": [f"User:{APP}"], "groups": groups}
    stage = links.make(groups=["orders-app-.*"], fence=fence)
    source, local = stage.source, site.new_topic(1)
    allow(source, APP, local)
    site.opened.callback(forget, source, local)
    stage.written(50)
    names = {kind: f"{stage.group}-{kind}" for kind in ("classic", "modern", "both")}
    commit(source.properties(), names["both"], TopicPartition(local, 0, 0))
    with ExitStack() as members:
        for kind, name in names.items():
            protocol = "consumer" if kind == "modern" else "classic"
            reading = member(source.properties(APP), name, stage.topic, protocol)
            members.enter_context(reading)
        killed_at(stage, "after", "stop-replication", "failover", *GO)
        found = {kind for kind, name in names.items() if denials(source, name)}
    assert found == {"classic": {"classic"}, "all": {*names}, "none": set()}[groups]
    (done,) = (each for each in stage.entries("done") if each["step"] == "fence-consumers")
    left = f"{names['both']}: it also consumes {local}, which the link does not replicate"
    assert (left in done["message"]) is (groups == "classic")
    assert stage.run("resume", "--abandon", "seen", "--execute", "--yes").code == 1
