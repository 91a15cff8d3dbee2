"""Two connectors against each other on one topic, under the same names: it has no end by itself."""

from collections.abc import Iterator
from typing import Any

import pytest

from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.own_homes import OwnHome
from tests.cluster.way_home import PARTITIONS
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

FEW, ROUNDS = 3, 5
PLANS = (("failover", "--mode", "unplanned"), ("failback", "--policy", "copy"))


@pytest.fixture
def home(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[OwnHome]:
    made = OwnHome(lab, new_drctl, new_topic(PARTITIONS))
    try:
        yield made
    finally:
        made.close()


def cycles(document: dict[str, Any], key: str = "findings") -> dict[str, Any]:
    """What the check says, which says it once."""
    (found,) = (each for each in document[key] if each["check"] == "cycles")
    return dict(found)


def test_records_that_go_round_are_seen_and_nothing_is_planned_until_it_is_stopped(
    home: OwnHome,
) -> None:
    assert len(home.write("round", FEW, home.primary)) == FEW
    home.connectors.run(home.reverse)
    more = lambda: home.held(home.primary) >= FEW * ROUNDS  # noqa: E731
    assert Patience.of(60).wait_until(more), "nothing goes round"

    stop = f"connectors/{home.reverse}/stop"
    told = cycles(home.json("doctor", code=1), "checks")
    assert (told["status"], stop in told["cure"]) == ("fail", True), told
    for words in PLANS:
        plan = home.json(*words, code=3)
        found = cycles(plan)
        assert (found["status"], stop in found["cure"]) == ("fail", True), (words, found)
    refused = home.run("failover", "--execute", "--yes")
    assert refused.code == 3
    assert "copy back under the same names" in refused.stderr
    assert stop in refused.stderr
    assert home.led_to == home.secondary.bootstrap, "it has begun"

    home.connectors.stop(home.reverse)
    ended = home.held(home.primary)
    after = home.run("doctor", "--output", "json").document()
    assert cycles(after, "checks")["status"] == "ok"
    assert home.held(home.primary) == ended
    assert cycles(home.run("failover", "--output", "json").document())["status"] == "ok"
