"""Measurements come from the applications' own logs, and are compared with the limits."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from drctl.drill.clients import Consumed, Logs, Written
from drctl.drill.result import Limits, measured, worse
from drctl.steps.commit_offsets import CommitFacts

COMMITTED = CommitFacts(2, 1, 0, 3)
PLANNED, LOST = Limits(30, 10, planned=True), Limits(2, None, planned=False)


def logs(**parts: object) -> Logs:
    given = {
        "source": Written({"s0": 1.0, "s1": 2.0, "s2": 5.0}),
        "target": Written({"t0": 9.0}),
        "before": Consumed({"s0": 1.5, "s1": 2.5}, {"s0"}, 2),
        "after": Consumed({"s1": 9.5, "s2": 9.6, "t0": 9.7}, set(), 3),
        "held": {"s0": 1, "s1": 1, "s2": 1, "t0": 1},
        **parts,
    }
    return Logs(**given)  # type: ignore[arg-type]


def test_a_healthy_drill() -> None:
    found = measured(logs(), COMMITTED)
    assert (found.outage.since, found.outage.write_s, found.outage.read_s) == ("last-write", 4, 4.5)
    assert found.outage.seconds == 4.5
    assert (found.loss.acknowledged, found.loss.missing, found.loss.seconds) == (3, 0, 0)
    assert (found.translation.reread, found.translation.skipped) == (0, 0)
    assert worse(found, PLANNED) == ()


def test_time_counts_from_the_first_refused_write() -> None:
    source = Written({"s0": 1.0}, refused_at=3.0)
    found = measured(logs(source=source), COMMITTED)
    assert (found.outage.since, found.outage.seconds) == ("refused", 6.5)
    assert worse(found, Limits(30, 6, planned=True)) == ("RTO 6.5 s exceeds the limit of 6 s",)


def test_acknowledged_records_that_are_missing_are_lost() -> None:
    found = measured(logs(held={"s0": 2, "t0": 1}), COMMITTED)
    assert (found.loss.missing, found.loss.seconds, found.loss.duplicated) == (2, 3.0, 1)
    assert found.loss.examples == ("s1", "s2")
    assert worse(found, LOST) == ("RPO 3.0 s exceeds the limit of 2 s",)
    assert worse(found, PLANNED) == (
        "2 acknowledged records were lost; a planned failover must lose none",
    )


def test_skipped_and_reread_records_are_counted_by_id() -> None:
    before = Consumed({}, {"s0", "s1"}, 2)
    after = Consumed({"s0": 9.0, "s1": 9.1, "t0": 9.2}, set(), 3)
    found = measured(logs(before=before, after=after), replace(COMMITTED, rereads_at_most=1))
    assert (found.translation.reread, found.translation.skipped) == (2, 1)
    assert found.translation.examples == ("s2",)
    assert worse(found, PLANNED) == (
        "the group skipped 1 record",
        "the group re-read 2 records; the plan allowed at most 1",
    )


def test_a_group_without_an_offset_does_not_pass() -> None:
    none = CommitFacts(0, 0, 0, 0, left_out=("x",))
    found = measured(logs(), none)
    assert found.translation.promised is None
    assert worse(found, PLANNED) == (
        "no offset of the group was committed on the target: it re-read 0 of 1 records",
        "1 offset could not be translated",
    )


def test_without_clients_on_the_target_there_is_no_rto() -> None:
    found = measured(logs(target=Written(), after=Consumed()), None)
    assert found.outage.seconds is None
    assert worse(found, LOST)[0].startswith("the applications did not resume")


IDS = st.sets(st.sampled_from([f"s{number}" for number in range(12)]))


@given(IDS, IDS, IDS, IDS)
def test_every_record_of_the_target_is_processed_read_or_skipped(
    acknowledged: set[str], held: set[str], finished: set[str], read: set[str]
) -> None:
    found = measured(
        logs(
            source=Written(dict.fromkeys(sorted(acknowledged), 1.0)),
            held=dict.fromkeys(held, 1),
            before=Consumed({}, finished),
            after=Consumed(dict.fromkeys(sorted(read & held), 9.0)),
        ),
        COMMITTED,
    )
    assert found.loss.missing == len(acknowledged - held)
    assert found.translation.skipped + len(held & (finished | read)) == len(held)
    assert found.translation.reread == len(held & read & finished)
