"""A planned failover that lets the old primary follow: nothing comes twice, and the way home."""

from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest

from drctl.lab.lab import Lab
from drctl.lab.scenarios import stage
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.way_home import COPIED, GO, LATER, NEW, PARTITIONS, Journey, named, steps_of
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

FORWARD = {name: f"mm2-{name}" for name in ("source", "checkpoint", "heartbeat")}


@pytest.fixture
def reverse() -> str:
    """What brings records back."""
    return f"mm2-back-{uuid4().hex[:6]}"


@pytest.fixture
def journey(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic, reverse: str) -> Iterator[Journey]:
    """Applications on the primary; what brings records back is there, and stopped."""
    url = f"http://127.0.0.1:{lab.parts.settings.connect_port}"
    replicator = {
        "kind": "mirrormaker2",
        "connect": url,
        "connectors": FORWARD,
        "reverse": {"connect": url, "connectors": {"source": reverse}, "after_failover": True},
    }
    topic = new_topic(PARTITIONS, mirrored=True)
    made = Journey(lab, new_drctl, topic, replicator=replicator)
    made.lead_to("primary")
    stage.deploy(lab, topic, reverse)
    try:
        yield made
    finally:
        stage.remove(lab, reverse)
        lab.replicate(True)


def test_the_old_primary_follows_and_the_way_home_is_short(journey: Journey, reverse: str) -> None:
    journey.write("copied", COPIED, journey.primary)
    assert Patience.of(60).wait_until(lambda: journey.held(journey.secondary) >= COPIED)
    read = journey.read(journey.group, journey.primary, named("copied", COPIED))
    plan = journey.json("failover", code=0)
    order = [step["id"] for step in plan["steps"]]
    assert order.index("begin-reverse") < order.index("open-target")
    assert order[-1] == "replicate-back"

    done = journey.json("failover", *GO, code=0)
    assert set(steps_of(done, "status").values()) <= {"done", "passed"}
    journey.write("new", NEW, journey.secondary)
    everything = Counter(named("copied", COPIED) | named("new", NEW))
    assert Patience.of(60).wait_until(lambda: journey.held(journey.primary) >= everything.total())
    for cluster in (journey.primary, journey.secondary):
        assert journey.all_of(cluster) == everything, cluster.name
    read += journey.read(journey.group, journey.secondary, named("new", NEW))

    early = journey.run("failback", "--policy", "copy")
    assert early.code == 3, early.stdout
    assert "copies to primary now: what that lacks cannot be found while it grows" in early.stdout
    journey.stop(reverse)
    home = journey.json("failback", "--policy", "copy", *GO, code=0)
    assert home["rpo"] == {"records": 0, "at_least": 0, "at_most": 0, "seconds": 0, "exact": True}
    assert journey.led_to == journey.primary.bootstrap
    later = journey.write("later", LATER, journey.primary)
    everything.update(later)
    assert Patience.of(60).wait_until(lambda: journey.held(journey.secondary) >= everything.total())
    for cluster in (journey.primary, journey.secondary):
        assert journey.all_of(cluster) == everything, cluster.name
    read += journey.read(journey.group, journey.primary, set(later))
    assert set(read) == set(everything)
