"""The lab's other shape: three brokers a cluster, prefixed names, both directions."""

import signal
from pathlib import Path
from random import Random

import pytest
import yaml

from drctl.app.link_reader import ClusterLinkReader
from drctl.app.prechecks import run_prechecks
from drctl.config.loading import load
from drctl.lab.environment import write_environment
from drctl.lab.lab import Lab
from drctl.lab.processes import lab_mark, marked_processes
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base
from drctl.lab.status import look
from drctl.lab.waiting import Patience
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from drctl.model.topology import Record
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm
HEARTBEATS = "primary.heartbeats"
"""The copy of the heartbeats that the other direction's connector writes."""


def copied(cluster: ClusterUnderTest, topic: str) -> int:
    if topic not in cluster.admin.list_topics(timeout=30).topics:
        return 0
    return sum(cluster.end_offsets(topic).values())


def heartbeats_tell_a_source_that_only_drctl_cannot_reach(
    lab: Lab, secondary: ClusterUnderTest, folder: Path
) -> None:
    """No client writes; MirrorMaker 2 replicates heartbeats of the other direction while it can."""
    document = yaml.safe_load((folder / "drctl.yaml").read_text(encoding="utf-8"))
    document["clusters"]["primary"]["bootstrap"] = f"127.0.0.1:{free_ports(1)[0]}"
    (folder / "cut-off.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    config = load(folder / "cut-off.yaml")

    def alive() -> Finding:
        with ClusterLinkReader(config, config.link(None), run_prechecks, lost=True) as reader:
            (found,) = [f for f in reader.findings(Mode.UNPLANNED) if f.check == "source-alive"]
        return found

    assert Patience.of(60).wait_until(lambda: copied(secondary, HEARTBEATS) > 0)
    finding = alive()
    assert finding.status is Status.FAIL
    assert (
        finding.reason
        == "it does not answer here, but its copied heartbeats still arrive on the target"
    )
    assert f" heartbeats ({HEARTBEATS}) arrived on secondary" in finding.evidence
    for node in (1, 2, 3):
        lab.signal(f"primary-{node}", signal.SIGKILL)
    dead = alive()
    assert (dead.status, dead.reason) == (
        Status.OK,
        "it does not answer, and nothing is replicated from it",
    )


@pytest.mark.nightly
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

        state = look(lab).to_json()
        assert len(state["components"]) == 7
        assert state["answering"]
        assert not [t for c in state["connectors"] for t in c["tasks"] if t == "FAILED"]

        lab.signal("primary-2", signal.SIGKILL)
        primary.produce("flights", [Record(0, 0, 1000, b"k", b"v")])
        lab.start("primary-2")
        dead = [
            part["name"]
            for part in look(lab).to_json()["components"]
            if part["state"] != "answering"
        ]
        assert dead == []

        write_environment(lab.parts, tmp_path / "drctl.yaml")
        link = load(tmp_path / "drctl.yaml").link(None)
        assert link.target_topic("flights") == "primary.flights"
        reverse = link.settings.replicator.reverse
        assert reverse is not None
        assert reverse.rename == "secondary.${topic}"
        heartbeats_tell_a_source_that_only_drctl_cannot_reach(lab, secondary, tmp_path)
    finally:
        lab.down()
    assert marked_processes(lab_mark(lab.root)) == ()
    assert not lab.root.exists()
