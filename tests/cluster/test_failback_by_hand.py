"""`drctl failback` where the site copies by means of its own: a person starts and stops them.

What copies, in either direction, is a plain client of the tests' own, told where to begin as
drctl says: home from the first new record on, without what drctl has copied; away again from where
the primary ended when it was opened.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from drctl.formats.provenance import HEADER
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.copying import Copier
from tests.cluster.rights import allow, forget
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

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

QUESTIONS = ("old-replication", "bring-home", "stop-replication", "replicate-again")


class ByHand(Journey):
    """A link whose copiers are halted and started by the test."""

    kind = "none"
    keeps_offsets = False

    def __init__(
        self, lab: Lab, new_drctl: NewDrctl, topic: str, folder: Path, opened: ExitStack
    ) -> None:
        super().__init__(lab, new_drctl, topic, replicator={"kind": self.kind})
        self.folder, self.opened = folder, opened
        self.forward = self.copier("forward")

    def copier(self, name: str, **how: object) -> Copier:
        """One at work; `back` copies from the secondary to the primary."""
        ends = (self.primary, self.secondary)
        source, target = reversed(ends) if name == "back" else ends
        folder = self.folder / name
        folder.mkdir()
        keeps = self.keeps_offsets
        made = Copier(source, target, self.topic, folder, keeps, **how)  # type: ignore[arg-type]
        return self.opened.enter_context(made.at_work())

    def replicate(self, running: bool) -> None:
        """It only ever stops."""
        assert not running
        self.forward.halt()
        assert Patience.of(30).wait_until(lambda: self.forward.halted)

    def lose_the_primary(self) -> None:
        super().lose_the_primary()
        held = self.secondary.end_offsets(self.topic)
        by_partition = Counter(self.partitions_of_new())
        self.boundary = {n: end - by_partition[n] for n, end in held.items()}

    def partitions_of_new(self) -> list[int]:
        """Where the new records stand, one partition for each."""
        from drctl.lab.cluster import read_topic

        held = read_topic(self.secondary.lab_cluster, self.topic)
        return [place[0] for place, value in held.items() if value.startswith(b"new-")]

    def done(self, step: str) -> bool:
        return any(e["entry"] == "done" and e.get("step") == step for e in self.journaled())


@pytest.fixture
def by_hand(lab: Lab, new_drctl: NewDrctl, new_topic: NewTopic, tmp_path: Path) -> Iterator[ByHand]:
    with ExitStack() as opened:
        made = ByHand(lab, new_drctl, new_topic(PARTITIONS, mirrored=False), tmp_path, opened)
        for cluster in (made.primary, made.secondary):
            allow(cluster, APP, made.topic)
            opened.callback(forget, cluster, made.topic)
        made.lose_the_primary()
        yield made


def test_what_begins_at_the_beginning_is_refused_before_clients_are_home(by_hand: ByHand) -> None:
    answers = [word for name in QUESTIONS for word in ("--answer", f"{name}=yes")]
    undone = ("--answer", "bring-home.undo=yes")
    with by_hand.running("failback", "--policy", "copy", *answers, *undone, *GO) as process:
        by_hand.begins("bring-home")
        by_hand.copier("back", leaves_out=HEADER)
        assert process.wait(DEADLINE_S) == 4, by_hand.said
    (failed,) = [e for e in by_hand.journaled() if e["entry"] == "failed"]
    assert failed["step"] == "bring-home"
    assert "would be copied twice, or left out" in failed["words"]
    assert by_hand.led_to == by_hand.secondary.bootstrap


def test_a_person_starts_what_copies_and_nothing_is_lost_or_doubled(by_hand: ByHand) -> None:
    read = by_hand.read(
        by_hand.group, by_hand.secondary, named("copied", COPIED) | named("new", NEW)
    )
    asked = by_hand.run("failback", "--policy", "copy", *GO)
    assert asked.code == 3, asked.stdout
    assert "nobody is there to answer" in asked.stderr
    answers = [word for name in QUESTIONS for word in ("--answer", f"{name}=yes")]
    with by_hand.running("failback", "--policy", "copy", *answers, *GO) as process:

        def reached(step: str) -> None:
            def there() -> bool:
                assert process.poll() is None or by_hand.done(step), by_hand.said
                return by_hand.done(step)

            assert Patience.of(DEADLINE_S).wait_until(there), by_hand.said

        reached("reconcile")
        begin = by_hand.begins("bring-home")
        assert begin == by_hand.boundary
        back = by_hand.copier("back", begin=begin, leaves_out=HEADER)
        reached("drain")
        back.halt()
        reached("open-target")
        again = by_hand.begins("replicate-again")
        assert again == by_hand.primary.end_offsets(by_hand.topic), "nobody has written since"
        by_hand.copier("again", begin=again)
        assert process.wait(DEADLINE_S) == 0, by_hand.said
    assert by_hand.led_to == by_hand.primary.bootstrap
    everything = Counter(named("copied", COPIED) | named("tail", TAIL) | named("new", NEW))
    for cluster in (by_hand.primary, by_hand.secondary):
        assert by_hand.all_of(cluster) == everything, cluster.name
    later = by_hand.write("later", LATER, by_hand.primary)
    everything.update(later)
    assert Patience.of(60).wait_until(lambda: by_hand.held(by_hand.secondary) >= everything.total())
    assert by_hand.all_of(by_hand.secondary) == everything
    read += by_hand.read_on(read, set(everything))
    assert set(read) == set(everything)
