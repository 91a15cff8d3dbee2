"""Commands that start reverse replication, derived from observations, never copy a record twice."""

import json
from dataclasses import replace
from typing import Any

import pytest

from drctl.failback.answer import Answer, Verdict
from drctl.failback.facts import Cluster, Copies, Facts, GroupState, JournaledRun, ReverseStart
from drctl.failback.steps import Observed
from drctl.failback.suggested_commands import Start, commands_by_step, start_of
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from tests.failback.failback_orders import (
    BOUNDARY,
    DROP,
    HERE,
    PLACE,
    SILENT,
    TARGET_END,
    THERE,
    after_failback,
    copying,
    gap,
    in_order_to_d,
    in_order_to_e,
    in_order_to_h,
    judged,
    partition,
)
from tests.failback.test_answer import SITE, drawn, site

OTHER = TopicPartition("orders", 1)
RESUME = "curl -s -X PUT http://back:8083/connectors/mm2-back/resume"


def started(at: int = TARGET_END) -> Facts:
    """The run was killed when few records were left; its connector is stopped."""
    return replace(in_order_to_h(), reverse=copying("mm2-back", "STOPPED", {PLACE: at}, **DROP))


def typed(answer: Answer) -> tuple[str, ...]:
    """Return the commands that `--check-order` suggests for step f."""
    return commands_by_step(site(answer))["f"]


def test_a_connector_that_started_at_the_boundary_is_only_resumed() -> None:
    found = judged(started())
    assert (found.verdict, found.next, found.steps["f"].started) == (Verdict.OK, "f", True)
    lines = typed(found)
    assert lines[-1] == RESUME
    assert not any("/offsets" in line for line in lines), (
        "a reset connector would replicate everything again"
    )


def test_replicated_records_are_not_repeated_without_connect_offsets() -> None:
    for kept in ({}, {PLACE: 99}):
        found = judged(started(), reverse=copying("mm2-back", "STOPPED", kept, **DROP))
        (line,) = typed(found)
        assert line.startswith("do not start reverse replication yet: orders-0")
    silent = judged(started(), reverse=copying("mm2-back", "STOPPED", SILENT, **DROP))
    (line,) = typed(silent)
    assert SILENT.reason in line


def test_a_connector_that_would_write_to_its_source_is_not_started() -> None:
    """MirrorMaker 2 on Connect writes with its worker's producer: it would replicate in a loop."""
    looping = replace(copying("mm2-back", "STOPPED", {PLACE: BOUNDARY}, **DROP), workers=THERE)
    found = judged(in_order_to_e(), reverse=looping)
    why = found.steps["f"].why
    assert found.steps["f"].observed is Observed.NOT_DONE
    assert "connector mm2-back: it writes to secondary, not to primary" in why
    (line,) = typed(found)
    assert line.startswith("do not start reverse replication yet: it writes to secondary")
    assert "producer.override.bootstrap.servers" in line
    runs = replace(copying("mm2-back", "RUNNING", {PLACE: BOUNDARY}, **DROP), workers=THERE)
    assert judged(in_order_to_e(), reverse=runs).steps["f"].started
    emptied = judged(in_order_to_e(), reverse=looping, on_source=Cluster(HERE, {}))
    assert emptied.seen.rebuilding
    assert RESUME not in typed(emptied)
    right = judged(in_order_to_e(), reverse=replace(looping, workers=HERE))
    assert typed(right)[-1] == RESUME


def test_an_unfinished_failback_is_resumed() -> None:
    run = JournaledRun("20261123T110610Z", "failback", "not ended", in_progress=True)
    text = drawn(judged(started(), journal=(run,)))
    assert "drctl resume 20261123T110610Z --link main --execute" in text
    assert "curl" not in text
    assert "drctl failback --link" not in text, (
        "a new failback is suggested during an unfinished one"
    )
    wrong = judged(started(), journal=(run,), forward=copying("mm2-source", "RUNNING"))
    assert wrong.verdict is Verdict.VIOLATED
    assert "/connectors/mm2-source/stop" in drawn(wrong), (
        "running forward replication is not stopped first"
    )
    early = (GroupState("readers", ("secondary",), {PLACE: 138}),)
    moving = judged(in_order_to_h(), journal=(run,), groups=early)
    assert moving.next == "i"
    assert "drctl failover" not in drawn(moving), (
        "offsets that the run committed count as a failover's"
    )
    assert "drctl resume 20261123T110610Z" in drawn(moving)
    assert "drctl failover" in drawn(judged(in_order_to_h(), groups=early))


def test_a_filter_is_set_before_replication_starts() -> None:
    """A rollback also removes the filter."""
    facts = replace(in_order_to_e(), reverse=copying("mm2-back", "STOPPED", {PLACE: 100}))
    found = judged(facts)
    assert [found.steps[each].observed for each in "fg"] == ["not-done", "not-done"]
    assert found.next == "g"
    late = judged(started(), reverse=copying("mm2-back", "STOPPED", {PLACE: TARGET_END}))
    assert (late.verdict, late.next) == (Verdict.OK, "g")


def test_start_offsets_are_printed_in_full() -> None:
    two = gap(partition(), partition(place=OTHER, copy=OTHER))
    config: dict[str, Any] = {"source.cluster.alias": "secondary", **DROP["config"]}
    found = judged(
        in_order_to_e(),
        gaps=(two,),
        on_source=Cluster(HERE, {place: OffsetRange(0, 110) for place in (PLACE, OTHER)}),
        boundaries={PLACE: 100, OTHER: 70},
        drctl_copies=Copies(),
        decided={},
        reverse=copying("mm2-back", "STOPPED", {PLACE: 100}, config),
    )
    (line,) = (each for each in typed(found) if "PATCH" in each)
    body = json.loads(line.rpartition("--data ")[2].strip("'"))
    entry = {"cluster": "secondary", "topic": "orders", "partition": 1}
    assert body == {"offsets": [{"partition": entry, "offset": {"offset": 69}}]}
    assert "@" not in line


def test_replicator_stores_the_next_offset_without_an_alias() -> None:
    config = {"connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector"}
    found = judged(in_order_to_e(), reverse=copying("back", "STOPPED", {PLACE: 90}, config))
    (entry,) = json.loads(start_of(found.seen).body)["offsets"]
    assert entry == {"partition": {"topic": "orders", "partition": 0}, "offset": {"offset": 100}}


def test_a_connector_that_started_at_the_start_is_stopped() -> None:
    found = judged(in_order_to_h(), reverse_start={PLACE: ReverseStart.START})
    assert (found.next, start_of(found.seen)) == ("f", Start(twice=True))
    assert typed(found)[0].endswith("/connectors/mm2-back/stop")
    assert not any("resume" in line or "PATCH" in line for line in typed(found))


@pytest.mark.parametrize(
    "unsure",
    [
        judged(in_order_to_h(), reverse_start={PLACE: ReverseStart.ELSEWHERE}),
        judged(in_order_to_d(), boundaries=Unavailable("too many to count")),
        judged(in_order_to_d(), reverse=SILENT),
        judged(after_failback(), diverged="offset 100 of orders-0 is not what follows"),
    ],
)
def test_nothing_is_started_with_unknown_consequences(unsure: Answer) -> None:
    (line,) = typed(unsure)
    assert line.startswith("do not start reverse replication yet: ")


def test_no_command_names_a_missing_file() -> None:
    assert not any("@" in line for lines in commands_by_step(SITE).values() for line in lines)
