"""`drctl failback` where an offset-preserving mirror, or Confluent Replicator, copies.

Neither can be had here. A plain client of the tests' own that keeps offsets stands for the mirror;
that a topic is deleted and mirrored from its beginning stands for cutting it where both part: each
record is at the same offset on either side (but for markers of transactions at the end, which a
mirror copies, too). Connectors of MirrorMaker 2 stand for Replicator: what
that proves is what drctl looks at and does over Connect, and what it leaves to a person.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from drctl.engine.failback_state import filter_to_add
from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.own_connectors import Connectors, settings
from tests.cluster.rights import allow, forget
from tests.cluster.test_failback_by_hand import QUESTIONS, ByHand
from tests.cluster.way_home import (
    APP,
    COPIED,
    DEADLINE_S,
    GO,
    LATER,
    NEW,
    PARTITIONS,
    TAIL,
    Journey,
    named,
)
from tests.conftest import NewTopic

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(600)]

EVERYTHING = Counter(named("copied", COPIED) | named("tail", TAIL) | named("new", NEW))


class Going:
    """A way home under way, which people follow."""

    def __init__(self, journey: Journey) -> None:
        self.journey = journey

    @contextmanager
    def on(self, *questions: str) -> Iterator[None]:
        """To its end, behind the block."""
        answers = [word for name in questions for word in ("--answer", f"{name}=yes")]
        with self.journey.running("failback", "--policy", "copy", *answers, *GO) as process:
            self.process = process
            yield
            assert process.wait(DEADLINE_S) == 0, self.journey.said

    def reached(self, step: str) -> None:
        def done() -> bool:
            return any(
                e["entry"] == "done" and e.get("step") == step for e in self.journey.journaled()
            )

        def there() -> bool:
            assert self.process.poll() is None or done(), self.journey.said
            return done()

        assert Patience.of(DEADLINE_S).wait_until(there), self.journey.said


class Mirrored(ByHand):
    """The mirror keeps offsets, in either direction."""

    kind = "offset-preserving"
    keeps_offsets = True

    def cut(self) -> None:
        """What the mirror's own command does, as far as the end goes."""
        self.primary.delete_topics([self.topic])
        gone = lambda: self.topic not in self.primary.admin.list_topics(timeout=10).topics  # noqa: E731
        assert Patience.of(60).wait_until(gone)
        self.primary.create_topic(self.topic, PARTITIONS)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """One that the lab's own connectors know nothing of, and that applications may write to."""
    return new_topic(PARTITIONS)


def let_in(journey: Journey, opened: ExitStack) -> None:
    for cluster in (journey.primary, journey.secondary):
        allow(cluster, APP, journey.topic)
        opened.callback(forget, cluster, journey.topic)


def test_a_mirror_comes_home_as_the_survivor_has_it(
    lab: Lab, new_drctl: NewDrctl, topic: str, tmp_path: Path, opened: ExitStack
) -> None:
    """What only the primary had is on the survivor before the primary is cut."""
    journey = Mirrored(lab, new_drctl, topic, tmp_path, opened)
    let_in(journey, opened)
    journey.lose_the_primary()
    read = journey.read(
        journey.group, journey.secondary, named("copied", COPIED) | named("new", NEW)
    )
    plan = journey.json("failback", "--policy", "copy", code=0)
    asked = {step["id"]: step["settings"].get("text", "") for step in plan["steps"]}
    assert "what primary holds behind that is cut off" in asked["bring-home"]
    going = Going(journey)
    with going.on(*QUESTIONS):
        going.reached("reconcile")
        assert journey.begins("bring-home") == journey.boundary
        journey.cut()
        back = journey.copier("back")
        going.reached("drain")
        back.halt()
        going.reached("open-target")
        # The survivor ends with a marker of a transaction, which no plain client copies.
        journey.keeps_offsets = False
        again = journey.begins("replicate-again")
        assert again == journey.primary.end_offsets(topic)
        journey.copier("again", begin=again)
    assert journey.led_to == journey.primary.bootstrap
    there, here = (
        read_topic(each.lab_cluster, topic) for each in (journey.secondary, journey.primary)
    )
    assert here == there, "a record is at another offset than on the survivor"
    everything = EVERYTHING + Counter(journey.write("later", LATER, journey.primary))
    assert Patience.of(60).wait_until(lambda: journey.held(journey.secondary) >= everything.total())
    assert journey.all_of(journey.secondary) == everything
    read += journey.read(journey.group, journey.primary, set(everything) - set(read))
    assert Counter(read) == everything, "offsets are the same: nothing is read twice"


class Replicated(Journey):
    """Connectors in both directions, that a person tells where to begin."""

    def __init__(self, lab: Lab, new_drctl: NewDrctl, topic: str, opened: ExitStack) -> None:
        self.connectors = Connectors(lab)
        opened.callback(self.connectors.close)
        self.there, self.back = f"copy-{topic}", f"home-{topic}"
        url = self.connectors.url
        replicator = {
            "kind": "confluent-replicator",
            "connect": url,
            "connectors": {"source": self.there},
            "reverse": {"connect": url, "connectors": {"source": self.back}},
        }
        super().__init__(lab, new_drctl, topic, replicator=replicator)
        self.create(self.there, "primary", "secondary", running=True)
        self.create(self.back, "secondary", "primary", running=False)

    def create(self, name: str, source: str, target: str, *, running: bool) -> None:
        self.connectors.create(
            name, settings(self.lab, source, target, self.topic, tasks__max="1"), running=running
        )

    def replicate(self, running: bool) -> None:
        (self.connectors.run if running else self.connectors.stop)(self.there)

    def begin(self, name: str, alias: str, ends: dict[int, int]) -> None:
        """As a person does: PATCH /connectors/NAME/offsets, then resume."""
        client = self.lab.parts.worker.client()
        try:
            client.alter_offsets(
                name,
                [
                    {
                        "partition": {"cluster": alias, "topic": self.topic, "partition": number},
                        "offset": {"offset": end - 1} if end else None,
                    }
                    for number, end in ends.items()
                ],
            )
        finally:
            client.close()
        self.connectors.run(name)


def test_a_person_tells_replicators_where_to_begin(
    lab: Lab, new_drctl: NewDrctl, topic: str, opened: ExitStack
) -> None:
    """They are stopped, and looked at, by drctl."""
    journey = Replicated(lab, new_drctl, topic, opened)
    let_in(journey, opened)
    # The lab's own connectors for checkpoints lead the same way, and are told of.
    opened.callback(lab.replicate, True)
    lab.replicate(False)
    journey.lose_the_primary()
    read = journey.read(
        journey.group, journey.secondary, named("copied", COPIED) | named("new", NEW)
    )
    new = Counter(
        place[0]
        for place, value in read_topic(journey.secondary.lab_cluster, topic).items()
        if value.startswith(b"new-")
    )
    held = journey.secondary.end_offsets(topic)
    boundary = {number: end - new[number] for number, end in held.items()}
    looked = journey.run("failback", "--check-order", "--output", "json").document()
    steps = {each["id"]: (each["observed"], each["why"]) for each in looked["steps"]}
    assert steps["b"][0] == "done", steps["b"]
    assert f"stopped: {journey.there}" in steps["b"][1]
    assert f"connector {journey.back} is STOPPED" in steps["f"][1]
    assert (looked["verdict"], looked["next"]) != ("violated", "b")

    going = Going(journey)
    with going.on("bring-home", "replicate-again"):
        going.reached("reconcile")
        config = settings(lab, "secondary", "primary", topic)
        changes = filter_to_add(config)
        journey.connectors.configure(journey.back, **changes)
        begin = journey.begins("bring-home")
        assert begin == boundary
        journey.begin(journey.back, "secondary", begin)
        going.reached("open-target")
        assert journey.connectors.states(journey.back) == ["STOPPED"]
        again = journey.begins("replicate-again")
        assert again == journey.primary.end_offsets(topic)
        journey.begin(journey.there, "primary", again)
    assert journey.led_to == journey.primary.bootstrap
    everything = Counter(EVERYTHING)
    assert journey.all_of(journey.primary) == everything
    everything.update(journey.write("later", LATER, journey.primary))
    assert Patience.of(60).wait_until(lambda: journey.held(journey.secondary) >= everything.total())
    assert journey.all_of(journey.secondary) == everything
    assert journey.connectors.states(journey.there, journey.back) == ["RUNNING", "STOPPED"]
    read += journey.read_on(read, set(everything))
    assert set(read) == set(everything)
