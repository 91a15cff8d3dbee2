"""The lab's other shape: three brokers a cluster, prefixed names, both directions."""

import signal
from pathlib import Path
from random import Random

import pytest

from drctl.config.loading import load
from drctl.lab.environment import write_environment
from drctl.lab.guards import free_port_base
from drctl.lab.jvm import lab_mark
from drctl.lab.lab import Lab
from drctl.lab.process import marked_processes
from drctl.lab.settings import LabSettings
from drctl.lab.status import look
from drctl.lab.waiting import Patience
from drctl.model.topology import Record
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm


def copied(cluster: ClusterUnderTest, topic: str) -> int:
    if topic not in cluster.admin.list_topics(timeout=30).topics:
        return 0
    return sum(cluster.end_offsets(topic).values())


def test_three_brokers_both_ways_with_prefixed_names(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    base = free_port_base(Random())
    shape = LabSettings(base, brokers=3, policy="default", active_active=True, heap_mb=256)
    try:
        lab.up(shape)
        primary = ClusterUnderTest(lab.cluster("primary"))
        secondary = ClusterUnderTest(lab.cluster("secondary"))
        for cluster, count in ((primary, 3), (secondary, 5)):
            cluster.create_topic("flights")
            cluster.produce("flights", [Record(0, 0, 1000, b"k", b"v")] * count)
        patience = Patience.of(60)
        assert patience.wait_until(lambda: copied(secondary, "primary.flights") == 3)
        assert patience.wait_until(lambda: copied(primary, "secondary.flights") == 5)

        state = look(lab)
        assert len(state["parts"]) == 7
        assert state["answering"]
        assert not [t for c in state["connectors"] for t in c["tasks"] if t == "FAILED"]

        lab.signal("primary-2", signal.SIGKILL)
        primary.produce("flights", [Record(0, 0, 1000, b"k", b"v")])
        lab.start("primary-2")
        dead = [part["name"] for part in look(lab)["parts"] if part["state"] != "answering"]
        assert dead == []

        write_environment(lab.parts, tmp_path / "drctl.yaml")
        link = load(tmp_path / "drctl.yaml").link(None)
        assert link.target_topic("flights") == "primary.flights"
        reverse = link.settings.replicator.reverse
        assert reverse is not None
        assert reverse.rename == "secondary.${topic}"
    finally:
        lab.down()
    assert marked_processes(lab_mark(lab.root)) == ()
    assert not lab.root.exists()
