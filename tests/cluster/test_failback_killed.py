"""A failback that is killed at every step ends like an uninterrupted one.

Each time it is resumed on a host without the journal and without the result of the search for
unreplicated records. Each has a topic and connectors of its own, with the same records.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.cluster.failback_stage import BACK, EVERYTHING, LATER, TAIL, FailbackStage, named
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.isolated_failbacks import OLDER, POLICIES, OwnFailback, held
from tests.cluster.killing import MOMENTS, killed_at, killed_in_each
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, NOTHING_LOST, steps_of

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(1800)]


@pytest.fixture
def new_failback(site: Site) -> Callable[[], OwnFailback]:
    """Create equal failbacks."""

    def make() -> OwnFailback:
        made = site.keep(OwnFailback(site))
        made.lose_primary()
        return made

    return make


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_failback_killed_in_any_step_ends_like_an_uninterrupted_one(
    new_failback: Callable[[], OwnFailback], moment: str
) -> None:
    left_alone, killed = new_failback(), new_failback()
    steps = [step["id"] for step in killed.json("failback", *POLICIES, code=0)["steps"]]
    assert {
        "find-missing",
        "reconcile",
        "start-reverse-replication",
        "enable-writes",
        "resolve-outstanding",
    } < {*steps}

    with left_alone.running("failback", *POLICIES, *GO) as alone:
        of_the_run = [""] if moment == "before" else []
        killed_in_each(killed, moment, [*steps, *of_the_run], "failback", *POLICIES, *GO)
        done = killed.json("resume", *GO, code=0)
        left_alone.ends(alone)
    assert done["rpo"] == NOTHING_LOST

    end = left_alone.end
    assert killed.end == end
    assert (end["standing"], end["writes"], end["outstanding"]) == ("done", "target", {})
    assert [*end["steps"]] == steps
    assert end["directed_to"] == killed.primary.bootstrap
    assert end["connectors"] == ["RUNNING", "STOPPED"]
    new = EVERYTHING | named("newer", OLDER)
    older = named("older", OLDER)
    assert held(end["records"]["primary"]) == Counter(new | older)
    assert held(end["records"]["secondary"]) == Counter(new)
    assert held(end["quarantined"]) == Counter(older)

    entries = killed.journaled()
    assert [e["seq"] for e in entries] == list(range(1, len(entries) + 1))
    assert Counter(e["step"] for e in killed.entries("intend")) == Counter(steps)
    later = killed.wrote("later", LATER, killed.primary)
    killed.await_held(killed.secondary, len(new | later))
    assert killed.all_of(killed.secondary) == Counter(new | later)
    killed.read(killed.group, killed.primary, killed.unread | {*later})


def test_an_export_on_a_dead_machine_is_not_required_again(
    new_failback: Callable[[], OwnFailback],
) -> None:
    """By now records of the secondary are replicated back, and the primary's own are unknown."""
    failback, exporting = new_failback(), ("--policy", "copy", "--conflicting", "export")
    killed_at(failback, "after", "wait-for-catch-up", "failback", *exporting, *GO)
    (export,) = failback.drctl.folder.glob(".drctl/reconcile/exports/*")
    failback.move_to_another_machine()
    done = failback.json("resume", *GO, code=0)
    assert done["rpo"] == NOTHING_LOST
    assert failback.directed_to == failback.primary.bootstrap
    assert not [*failback.drctl.folder.glob(".drctl/reconcile/exports/*")]
    kept = (
        failback.drctl.folder
        / "moved-aside-1"
        / export.relative_to(failback.drctl.folder / ".drctl")
    )
    assert (kept / "manifest.json").is_file()


def test_decisions_are_not_applied_again_for_a_new_gap_result(
    new_failback: Callable[[], OwnFailback],
) -> None:
    """Three hosts: one searched, one reconciled and died unreported, one resumes."""
    failback = new_failback()
    killed_at(failback, "after", "reconcile", "failback", *POLICIES, *GO)
    failback.move_to_another_machine()
    killed_at(failback, "before", "reconcile", "resume", *GO)
    failback.move_to_another_machine()
    killed_at(failback, "after", "exclude-reconciled-records", "resume", *GO)
    older, tail = named("older", OLDER), named("tail", TAIL)
    assert held(failback.in_order(failback.secondary, failback.quarantine)) == Counter(older)
    there = failback.all_of(failback.secondary)
    assert {value: there[value] for value in tail} == dict.fromkeys(tail, 1)


COMPACTED = {"cleanup.policy": "compact"}
AGAIN = 4
"""Number of unreplicated records whose keys are written again on the secondary."""


class Compacted(OwnFailback):
    """No record conflicts when the primary recovers."""

    def lose_primary(self) -> None:
        FailbackStage.lose_primary(self)


def test_records_that_became_conflicting_after_the_comparison_are_not_copied(site: Site) -> None:
    """On compacted topics the newest record of a key wins: a later copy would replace it."""
    failback = site.keep(Compacted(site, site.new_topic(PARTITIONS, config=COMPACTED)))
    failback.lose_primary()
    killed_at(failback, "after", "classify-records", *BACK, *GO)
    failback.wrote("again", AGAIN, failback.secondary, keys="tail")
    before = failback.in_order(failback.secondary)

    turned = failback.json("resume", *GO, code=4)
    assert steps_of(turned, "status")["reconcile"] == "failed", turned
    why = steps_of(turned, "detail")["reconcile"]
    assert "newer ones on the target" in why, why
    assert "start again with --policy quarantine" in why, why
    assert failback.in_order(failback.secondary) == before
    assert failback.directed_to == failback.secondary.bootstrap

    done = failback.completed_failback(*BACK)
    assert steps_of(done, "detail")["reconcile"] == f"all reconciled (copy: {TAIL - AGAIN})"

    superseded = named("tail", AGAIN)
    everything = Counter(EVERYTHING | named("again", AGAIN))
    assert failback.all_of(failback.primary) == everything
    assert failback.all_of(failback.secondary) == everything - Counter(superseded)
    for cluster in failback.site.clusters:
        assert newest_by_key(failback.in_order(cluster)) == named("again", AGAIN), cluster.name


def newest_by_key(records: dict[int, list[str]]) -> set[str]:
    """Return what compaction keeps of the keys that were written again."""
    last: dict[str, str] = {}
    for value in (value for values in records.values() for value in values):
        name, _, number = value.partition("-")
        if name in ("tail", "again") and int(number) < AGAIN:
            last[number] = value
    return set(last.values())
