"""What `drctl failback --execute` refuses before it has fenced or started anything."""

from collections.abc import Mapping

import pytest

from tests.cluster.failback_stage import TAIL
from tests.cluster.failover_stage import connect
from tests.cluster.isolated_failbacks import OLDER, POLICIES, OwnFailback
from tests.cluster.link_command import GO

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

OWN_PRODUCER = "producer.override."


def reconfigured(failback: OwnFailback, config: Mapping[str, str]) -> None:
    """Replace the configuration of the reverse connector, which stays STOPPED."""
    with connect(failback.lab) as client:
        client.put_config(failback.reverse, dict(config))


def refused_untouched(failback: OwnFailback, *words: str) -> str:
    """Assert that it is refused with --execute, and that nothing changed."""
    before = failback.shows, failback.journaled()
    refusal = failback.refused("failback", *words, *GO)
    assert (failback.shows, failback.journaled()) == before
    return refusal


def test_anything_that_would_roll_a_failback_back_is_found_before_the_fence(
    failback: OwnFailback,
) -> None:
    failback.lose_primary()
    right = failback.connectors.config(failback.reverse)
    assert f"{OWN_PRODUCER}bootstrap.servers" in right
    reconfigured(failback, {k: v for k, v in right.items() if not k.startswith(OWN_PRODUCER)})
    assert failback.json("gap", "--scope", "full", code=1)["totals"]["unreplicated"] == TAIL + OLDER

    refusal = refused_untouched(failback, *POLICIES)
    assert f"connector {failback.reverse}: it writes to secondary, not to primary" in refusal
    assert f"set {OWN_PRODUCER}bootstrap.servers={failback.primary.bootstrap}" in refusal
    order = failback.run("failback", "--check-order")
    assert "it writes to secondary, not to primary" in " ".join(order.stdout.split())
    looked = failback.run("failback", "--check-order", "--output", "json").document()
    (f,) = (step for step in looked["steps"] if step["id"] == "f")
    assert f["observed"] == "not-done"
    assert f"connector {failback.reverse}: it writes to secondary, not to primary" in f["why"]

    reconfigured(failback, right)
    refusal = refused_untouched(failback)
    assert f"no policy for {TAIL + OLDER} records" in refusal
    assert f"({TAIL} safe, {OLDER} conflicting, 0 unkeyed)" in refusal
    refusal = refused_untouched(failback, "--policy", "copy")
    assert f"{OLDER} conflicting: set --conflicting" in refusal

    failback.json("failback", *POLICIES, code=0)
    failback.wrote("open", 1, failback.primary)  # the primary is not fenced
