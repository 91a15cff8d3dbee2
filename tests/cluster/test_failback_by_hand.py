"""`drctl failback` with user-supplied replication that a person starts and stops.

A plain client of the tests replicates in either direction from where drctl says: in reverse from
the first new record on, without reconciled records; forward again from the end of the primary at
the time when writes were enabled.
"""

from pathlib import Path

import pytest

from drctl.formats.provenance import HEADER
from tests.cluster.copying import Copier
from tests.cluster.failback_stage import BACK, EVERYTHING, FailbackStage
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon, yes

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

QUESTIONS = (
    "stop-forward-replication",
    "start-reverse-replication",
    "stop-replication",
    "restart-forward-replication",
)


class ByHand(FailbackStage):
    """A link whose replication the test starts and stops."""

    kind = "none"
    keeps_offsets = False

    def __init__(self, site: Site, folder: Path) -> None:
        super().__init__(site, site.new_topic(PARTITIONS), replicator={"kind": self.kind})
        self.folder, self.opened = folder, site.opened
        self.allow_applications()
        self.forward = self.copier("forward")

    def copier(self, name: str, **how: object) -> Copier:
        """Run a copier; `back` copies from the secondary to the primary."""
        ends = (self.primary, self.secondary)
        source, target = reversed(ends) if name == "back" else ends
        folder = self.folder / name
        folder.mkdir()
        keeps = self.keeps_offsets
        made = Copier(source, target, self.topic, folder, keeps, **how)  # type: ignore[arg-type]
        return self.opened.enter_context(made.at_work())

    def replicate(self, running: bool) -> None:
        """Stop it; it is never started here."""
        assert not running
        self.forward.halt()
        soon(lambda: self.forward.halted)


@pytest.fixture
def by_hand(site: Site, tmp_path: Path) -> ByHand:
    made = ByHand(site, tmp_path)
    made.lose_primary()
    return made


def test_a_replicator_that_starts_at_the_beginning_is_refused_before_clients_move(
    by_hand: ByHand,
) -> None:
    words = (*BACK, *yes(*QUESTIONS, "start-reverse-replication.undo"), *GO)
    with by_hand.running(*words) as process:
        by_hand.begins("start-reverse-replication")
        by_hand.copier("back", leaves_out=HEADER)
        by_hand.ends(process, 4)
    (failed,) = by_hand.entries("failed")
    assert failed["step"] == "start-reverse-replication"
    assert "records would be duplicated or skipped" in failed["message"]
    assert by_hand.directed_to == by_hand.secondary.bootstrap


@pytest.mark.nightly
def test_replication_started_by_hand_loses_and_duplicates_nothing(by_hand: ByHand) -> None:
    read, boundary = by_hand.read_new(), by_hand.boundary()
    assert "unanswered questions: stop-forward-replication: " in by_hand.refused(*BACK, *GO)
    with by_hand.running(*BACK, *yes(*QUESTIONS), *GO) as process:
        by_hand.until(process, lambda: by_hand.has("done", "reconcile"))
        begin = by_hand.begins("start-reverse-replication")
        assert begin == boundary
        back = by_hand.copier("back", begin=begin, leaves_out=HEADER)
        by_hand.until(process, lambda: by_hand.has("done", "drain"))
        back.halt()
        by_hand.until(process, lambda: by_hand.has("done", "enable-writes"))
        again = by_hand.begins("restart-forward-replication")
        assert again == by_hand.primary.end_offsets(by_hand.topic), (
            "not the end of the primary when writes were enabled"
        )
        by_hand.copier("again", begin=again)
        by_hand.ends(process)
    assert by_hand.directed_to == by_hand.primary.bootstrap
    by_hand.both_hold(EVERYTHING)
    by_hand.keeps_running(EVERYTHING, read)
