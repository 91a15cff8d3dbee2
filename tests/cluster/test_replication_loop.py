"""Two connectors replicate one topic to each other under the same name: an endless loop."""

from typing import Any

import pytest

from tests.cluster.isolated_failbacks import OwnFailback
from tests.cluster.link_command import GO

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

FEW, ROUNDS = 3, 5
PLANS = (("failover", "--mode", "unplanned"), ("failback", "--policy", "copy"))


def cycles(document: dict[str, Any], key: str = "findings") -> dict[str, Any]:
    """Return the check's one finding."""
    (found,) = (each for each in document[key] if each["check"] == "replication-loops")
    return dict(found)


def test_a_replication_loop_is_detected_and_blocks_plans_until_it_is_stopped(
    home: OwnFailback,
) -> None:
    home.wrote("round", FEW, home.primary)
    home.connectors.run(home.reverse)
    home.await_held(home.primary, FEW * ROUNDS)

    stop = f"connectors/{home.reverse}/stop"
    check = cycles(home.json("doctor", code=1), "checks")
    assert (check["status"], stop in check["remedy"]) == ("fail", True), check
    for words in PLANS:
        plan = home.json(*words, code=3)
        found = cycles(plan)
        assert (found["status"], stop in found["remedy"]) == ("fail", True), (words, found)
    refused = home.refused("failover", *GO)
    assert "back under the same topic names" in refused
    assert stop in refused
    assert home.directed_to == home.secondary.bootstrap, "the failover changed something"

    home.connectors.stop(home.reverse)
    ended = home.held(home.primary)
    after = home.run("doctor", "--output", "json").document()
    assert cycles(after, "checks")["status"] == "ok"
    assert home.held(home.primary) == ended
    assert cycles(home.run("failover", "--output", "json").document())["status"] == "ok"
