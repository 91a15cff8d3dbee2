"""What `drctl failback --execute` refuses before it has closed or started anything."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from drctl.lab.lab import Lab
from tests.cli.conftest import Ran
from tests.cluster.conftest import NewDrctl
from tests.cluster.own_homes import OLDER, POLICIES, OwnHome
from tests.cluster.rights import denials
from tests.cluster.way_home import GO, PARTITIONS, TAIL
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

OWN_PRODUCER = "producer.override."


class Untouched(OwnHome):
    """A home that everything is still to be done for."""

    def reconfigure(self, config: Mapping[str, str]) -> None:
        """All that the connector which copies back has; it stays STOPPED."""
        client = self.lab.parts.worker.client()
        try:
            client.put_config(self.reverse, dict(config))
        finally:
            client.close()

    def shows(self) -> dict[str, Any]:
        """Whatever a way home changes first."""
        both = (self.primary, self.secondary)
        return {
            "records": {each.name: self.in_order(each) for each in both},
            "denied": {each.name: denials(each, self.topic) for each in both},
            "connectors": self.connectors.states(self.forward, self.reverse),
            "led_to": self.led_to,
            "journal": self.journaled(),
        }

    def refused(self, *words: str) -> Ran:
        """It, with --execute: nothing is another than before."""
        before = self.shows()
        ran = self.run("failback", *words, *GO)
        assert ran.code == 3, ran.stdout + ran.stderr
        assert self.shows() == before
        return ran


@pytest.fixture
def home(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic) -> Iterator[Untouched]:
    made = Untouched(lab, new_drctl, new_topic(PARTITIONS))
    try:
        made.lose_the_primary()
        yield made
    finally:
        made.close()


def test_what_would_turn_it_back_is_known_before_anything_is_closed(home: Untouched) -> None:
    right = home.connectors.config(home.reverse)
    assert f"{OWN_PRODUCER}bootstrap.servers" in right
    home.reconfigure({k: v for k, v in right.items() if not k.startswith(OWN_PRODUCER)})
    assert home.json("gap", "--scope", "full", code=1)["totals"]["unreplicated"] == TAIL + OLDER

    said = one_line(home.refused(*POLICIES))
    assert f"connector {home.reverse}: it writes to secondary, not to primary" in said
    assert f"set {OWN_PRODUCER}bootstrap.servers={home.primary.bootstrap}" in said
    order = home.run("failback", "--check-order")
    assert "it writes to secondary, not to primary" in one_line(order)
    looked = home.run("failback", "--check-order", "--output", "json").document()
    (f,) = (step for step in looked["steps"] if step["id"] == "f")
    assert f["observed"] == "not-done"
    assert f"connector {home.reverse}: it writes to secondary, not to primary" in f["why"]

    home.reconfigure(right)
    said = one_line(home.refused())
    assert f"nothing is said of {TAIL + OLDER} records" in said
    assert f"({TAIL} safe, {OLDER} conflicting, 0 unkeyed)" in said
    said = one_line(home.refused("--policy", "copy"))
    assert f"{OLDER} conflicting ones: the target holds something newer" in said

    home.json("failback", *POLICIES, code=0)
    assert len(home.write("open", 1, home.primary)) == 1, "it is closed"


def one_line(ran: Ran) -> str:
    """What was said, wherever its lines break."""
    return " ".join(f"{ran.stdout} {ran.stderr}".split())
