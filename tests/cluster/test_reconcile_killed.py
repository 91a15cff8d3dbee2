"""`drctl reconcile` on two real clusters, ended by SIGKILL around each of its calls.

After each kill the run is resumed: each record is there once, in the order of the source.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest

from drctl.reconcile.export import MANIFEST, record_of
from tests.cluster.killing import dying
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO
from tests.cluster.reconcile_stage import (
    NewStage,
    Stage,
    new_stages,
    origins,
    record,
    without_place,
)

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

RECORDS = 60

Death = tuple[str, str, int]
"""Moment, call, and the number of the call."""

MOMENTS = ("before", "after")
CALLS = ("begin", "append", "settle", "keep", "commit", "journal")
EVERYWHERE: tuple[Death, ...] = (
    *((moment, call, number) for call, number, moment in product(CALLS, (1, 2), MOMENTS)),
    # The third journal write is the end of the run: nothing is left to do after it.
    ("before", "journal", 3),
)
SOME: tuple[Death, ...] = (("after", "append", 1), ("before", "commit", 2), ("after", "commit", 1))


@pytest.fixture
def stage(site: Site) -> Iterator[NewStage]:
    with new_stages(site) as make:
        yield make


def resume(at: Stage) -> tuple[str, ...]:
    return "resume", "--link", at.topic


def dies(at: Stage, death: Death, *words: str) -> None:
    """Return the command line of the run or its resume, in a process that is killed there."""
    moment, call, number = death
    if at.drctl.json("journal", "--link", at.topic)["runs"]:
        words = resume(at)
    at.drctl.killed(dying("reconcile", moment, f"{call}:{number}"), *words, *GO)


def lost_tail(make: NewStage) -> tuple[Stage, str]:
    """Records of two partitions that the target does not have, and a gap result."""
    at = make(2)
    at.primary.produce(at.topic, [record(n, n % 2) for n in range(RECORDS)])
    return at, at.gap()


def sent_through(at: Stage, found: str, policy: str, deaths: Sequence[Death]) -> None:
    """After each kill assert a prefix of each partition once; all of it at the end."""
    topic = at.quarantine if policy == "quarantine" else at.topic
    words = ("reconcile", found, "--policy", policy)
    before = 0
    for death in deaths:
        dies(at, death, *words)
        there = at.drctl.json(*words)["totals"]["done_before"]
        assert there >= before, f"{death}: fewer records count as done than before"
        before = there
    assert at.drctl.json(*resume(at), *GO)["status"] == "done"
    assert at.drctl.json(*words)["totals"]["done_before"] == RECORDS
    source, target = at.held(at.primary), at.held(at.secondary, topic)
    for partition in (0, 1):
        assert origins(target[partition]) == list(range(RECORDS // 2))
        assert without_place(target[partition]) == without_place(source[partition])


def test_killed_inside_a_transaction_each_record_is_copied_once(stage: NewStage) -> None:
    at, found = lost_tail(stage)
    sent_through(at, found, "copy", SOME)


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["copy", "quarantine"])
def test_killed_around_each_call_each_record_is_copied_once(stage: NewStage, policy: str) -> None:
    at, found = lost_tail(stage)
    sent_through(at, found, policy, EVERYWHERE)


@pytest.mark.nightly
def test_killed_around_each_call_a_discard_is_recorded_once(stage: NewStage) -> None:
    at, found = lost_tail(stage)
    words = ("reconcile", found, "--topic", f"{at.topic}=discard")
    calls = ("journal", "begin", "settle", "keep")
    for moment, call in product(MOMENTS, calls):
        dies(at, (moment, call, 1), *words)
        assert at.drctl.json(*words)["totals"]["due"] == RECORDS
    dies(at, ("before", "commit", 1), *words)
    dies(at, ("after", "commit", 1), *words)
    assert at.drctl.json(*resume(at), *GO)["status"] == "done"
    done = at.drctl.json(*words)
    assert (done["totals"]["due"], done["totals"]["done_before"]) == (0, RECORDS)
    before = [segment for line in done["lines"] for segment in line["before"]]
    assert [(each["action"], each["records"]) for each in before] == [("discard", 30)] * 2
    assert at.held(at.secondary) == {0: [], 1: []}


@pytest.mark.nightly
def test_killed_around_each_call_an_export_is_complete_or_absent(
    stage: NewStage, tmp_path: Path
) -> None:
    at, found = lost_tail(stage)
    out = tmp_path / "export"
    words = ("reconcile", found, "--policy", "export", "--out", str(out))
    for death in (*product(MOMENTS, ("add",), (1, 40)), ("before", "finish", 1)):
        dies(at, death, *words)
        assert not (out / MANIFEST).exists(), f"{death}: an incomplete export has a manifest"
    dies(at, ("after", "finish", 1), *words)
    assert (out / MANIFEST).exists()
    dies(at, ("after", "add", 40), *words)
    assert at.drctl.json(*resume(at), *GO)["status"] == "done"
    done = at.drctl.json(*words, "--execute")
    assert (done["status"], done["totals"]["done"]) == ("done", RECORDS)
    for partition in (0, 1):
        lines = (out / f"{at.topic}-{partition}.jsonl").read_bytes().splitlines()
        assert [record_of(line).row[0] for line in lines] == list(range(RECORDS // 2))
