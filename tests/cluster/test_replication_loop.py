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
    failback: OwnFailback,
) -> None:
    failback.wrote("round", FEW, failback.primary)
    failback.connectors.run(failback.reverse)
    failback.await_held(failback.primary, FEW * ROUNDS)

    stop = f"connectors/{failback.reverse}/stop"
    check = cycles(failback.json("doctor", code=1), "checks")
    assert (check["status"], stop in check["remedy"]) == ("fail", True), check
    for words in PLANS:
        plan = failback.json(*words, code=3)
        found = cycles(plan)
        assert (found["status"], stop in found["remedy"]) == ("fail", True), (words, found)
    refused = failback.refused("failover", *GO)
    assert "back under the same topic names" in refused
    assert stop in refused
    assert failback.directed_to == failback.secondary.bootstrap, "the failover changed something"

    failback.connectors.stop(failback.reverse)
    ended = failback.held(failback.primary)
    after = failback.run("doctor", "--output", "json").document()
    assert cycles(after, "checks")["status"] == "ok"
    assert failback.held(failback.primary) == ended
    assert cycles(failback.run("failover", "--output", "json").document())["status"] == "ok"
