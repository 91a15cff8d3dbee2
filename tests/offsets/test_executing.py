"""Carrying a plan out: what is written, what is said of it, and what a crash leaves behind."""

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from drctl.model.errors import ExitCode, Unreachable
from drctl.model.groups import Committed, Group, GroupProtocol, GroupState
from drctl.model.journal import Entry
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable
from drctl.offsets import executing
from drctl.offsets.applying import Action, ApplyPlan, Guard, Override, build_plan
from drctl.offsets.executing import Execution
from drctl.offsets.journal import (
    ApplyResult,
    Damaged,
    JournaledRun,
    Outcome,
    nothing_written,
    read_run,
    taken_back,
)
from drctl.offsets.wanted import Bounds, Wanted, look
from tests.offsets.standing import Crash, Standing, group

GROUPS = ("a", "b", "c")
PLACES = (TopicPartition("t", 0), TopicPartition("t", 1))
LOGS = dict.fromkeys(PLACES, OffsetRange(0, 100))
EXACT = Bounds(0, 0)
WANTED = tuple(Wanted(name, place, Committed(50), EXACT) for name in GROUPS for place in PLACES)
START = datetime(2026, 3, 5, 14, 20, 7, tzinfo=UTC)


class Journal:
    """Entries as JSON lines; may crash before or after it has written."""

    run = "r1"
    where = "memory"

    def __init__(self, crash: Callable[[str, str], bool] = lambda _when, _kind: False) -> None:
        self.lines: list[str] = []
        self._crash = crash

    def append(self, entries: Sequence[Entry]) -> None:
        kind = entries[0]["entry"]
        if self._crash("before", kind):
            raise Crash
        self.lines += [json.dumps(entry) for entry in entries]
        if self._crash("after", kind):
            raise Crash

    def read(self) -> JournaledRun | None:
        return read_run([json.loads(line) for line in self.lines])


def clock() -> Callable[[], datetime]:
    moments = iter(range(10_000))
    return lambda: START + timedelta(seconds=next(moments))


def cluster() -> Standing:
    """Group a stands nowhere, b in both partitions, c in one of them."""
    held = {
        "b": {PLACES[0]: Committed(10, 2, "mine"), PLACES[1]: Committed(20)},
        "c": {PLACES[1]: Committed(30)},
    }
    return Standing(LOGS, {name: group(name) for name in held}, held)


def plan_of(standing: Standing, wanted: Sequence[Wanted], *passed: Guard) -> ApplyPlan:
    return build_plan(
        wanted,
        look(standing, standing, wanted),  # type: ignore[arg-type]
        cluster="target",
        cluster_id="id",
        origin="a test",
        made=START,
        overrides=[Override(guard, "because") for guard in passed],
    )


def execute(standing: Standing, plan: ApplyPlan, journal: Journal, undone: str = "") -> ApplyResult:
    run = Execution(standing, standing, journal, clock(), lambda _done, _all: None, undone)
    return run.run(plan)


def undo(standing: Standing, run: JournaledRun, journal: Journal | None = None) -> ApplyResult:
    plan = plan_of(standing, taken_back(run))
    return execute(standing, plan, journal or Journal(), run.run)


@pytest.fixture(autouse=True, params=[1, 250])
def batch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(executing, "BATCH", request.param)
    return int(request.param)


def test_all_of_it() -> None:
    standing, journal = cluster(), Journal()
    result = execute(standing, plan_of(standing, WANTED), journal)
    assert result.exit_code is ExitCode.DONE
    assert result.counts[Outcome.COMMITTED] == len(WANTED)
    assert set(standing.stands().values()) == {Committed(50)}
    run = journal.read()
    assert run is not None
    assert (run.ended, run.undone, len(run.changes)) == (True, "", len(WANTED))
    kinds = [json.loads(line)["entry"] for line in journal.lines]
    assert (kinds[0], kinds[-1]) == ("began", "ended")


def test_undo_puts_everything_back_and_can_be_undone() -> None:
    before, standing, journal = cluster(), cluster(), Journal()
    execute(standing, plan_of(standing, WANTED), journal)
    run = journal.read()
    assert run is not None
    second = Journal()
    result = undo(standing, run, second)
    assert result.exit_code is ExitCode.DONE
    assert result.counts[Outcome.DELETED] == 3
    assert standing.stands() == before.stands()
    again = undo(standing, run)
    assert (again.exit_code, again.counts[Outcome.SAME]) == (ExitCode.DONE, len(WANTED))
    undone = second.read()
    assert undone is not None
    assert undone.undone == "r1"
    undo(standing, undone)
    assert set(standing.stands().values()) == {Committed(50)}


def test_nothing_is_written_for_a_group_in_use() -> None:
    standing = cluster()
    standing.join("b")
    result = execute(standing, plan_of(standing, WANTED), Journal())
    assert result.exit_code is ExitCode.STOPPED
    assert {r.line.group for r in result.not_done} == {"b"}
    assert {r.line.guard for r in result.not_done} == {Guard.GROUP_ACTIVE}
    assert not any(name == "b" for name, _, _ in standing.effects)


def test_somebody_comes_between_the_plan_and_the_commit() -> None:
    standing, journal = cluster(), Journal()
    plan = plan_of(standing, WANTED)
    for name in GROUPS:
        standing.join(name)
    result = execute(standing, plan, journal)
    assert (result.exit_code, standing.effects) == (ExitCode.REFUSED, [])
    assert {r.line.guard for r in result.results} == {Guard.GROUP_ACTIVE}
    run = journal.read()
    assert run is not None
    assert run.changes == ()


def test_somebody_comes_after_the_last_look() -> None:
    standing = cluster()
    plan = plan_of(standing, WANTED)
    journal = Journal(lambda when, kind: kind == "intent" and when == "after" and join(standing))
    result = execute(standing, plan, journal)
    assert (result.exit_code, standing.effects) == (ExitCode.REFUSED, [])
    assert {r.line.guard for r in result.results} == {Guard.GROUP_ACTIVE}


def join(standing: Standing) -> bool:
    for name in GROUPS:
        standing.join(name)
    return False


def test_somebody_moved_it_since_the_plan() -> None:
    standing = cluster()
    plan = plan_of(standing, WANTED)
    held = standing.positions["b"]
    assert isinstance(held, dict)
    held[PLACES[0]] = Committed(90)
    result = execute(standing, plan, Journal())
    assert result.exit_code is ExitCode.STOPPED
    (left,) = result.not_done
    assert (left.line.guard, left.now) == (Guard.CHANGED_SINCE, Committed(90))
    assert held[PLACES[0]] == Committed(90)


def test_a_write_that_was_never_answered() -> None:
    standing = cluster()
    standing.lost, standing.eaten = frozenset({"a"}), frozenset({"b"})
    result = execute(standing, plan_of(standing, WANTED), Journal())
    outcomes = {(r.line.group, r.outcome) for r in result.results}
    # What was read back counts, not what was answered.
    assert outcomes == {
        ("a", Outcome.COMMITTED),
        ("b", Outcome.UNKNOWN),
        ("c", Outcome.COMMITTED),
    }
    assert result.exit_code is ExitCode.UNKNOWN
    assert all("no answer" in r.reason for r in result.not_done)


def test_a_group_whose_positions_cannot_be_read_back() -> None:
    standing = cluster()
    plan = plan_of(standing, WANTED)
    seen = [0]

    def silent(call: str) -> bool:
        written, seen[0] = len(standing.effects) - seen[0], len(standing.effects)
        return call == "committed" and written > 0

    standing.silent = silent
    result = execute(standing, plan, Journal())
    assert result.exit_code is ExitCode.UNKNOWN
    assert {r.outcome for r in result.results} == {Outcome.UNKNOWN}
    assert all("did not answer" in r.reason for r in result.not_done)


def test_a_cluster_that_is_gone_before_anything_was_sent() -> None:
    standing, journal = cluster(), Journal()
    plan = plan_of(standing, WANTED)
    standing.silent = lambda _call: True
    with pytest.raises(Unreachable):
        execute(standing, plan, journal)
    assert standing.effects == []


def test_a_cluster_that_goes_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executing, "BATCH", 1)
    standing, journal = cluster(), Journal()
    plan = plan_of(standing, WANTED)
    asked: list[str] = []

    def silent(call: str) -> bool:
        asked.append(call)
        return len(standing.effects) >= 2 and asked.count("described") >= 2

    standing.silent = silent
    result = execute(standing, plan, journal)
    assert result.exit_code is ExitCode.STOPPED
    outcomes = [(r.line.group, r.outcome) for r in result.results]
    assert outcomes == [("a", Outcome.COMMITTED)] * 2 + [(name, Outcome.FAILED) for name in "bbcc"]
    assert all(r.reason.startswith("not tried: ") for r in result.not_done)
    assert asked.count("described") == 2, "the last group was waited for as well"


def test_a_group_that_is_refused_by_name() -> None:
    standing = cluster()
    standing.positions["b"] = Unavailable("not authorized for group b")
    result = execute(standing, plan_of(standing, WANTED), Journal())
    assert result.exit_code is ExitCode.STOPPED
    assert [(r.line.group, r.outcome, r.reason) for r in result.not_done] == [
        ("b", Outcome.REFUSED, "not authorized for group b")
    ] * 2


def test_a_plan_that_writes_nothing() -> None:
    standing = cluster()
    standing.groups_held |= {
        name: Group(name, GroupProtocol.SHARE, GroupState.UNKNOWN) for name in GROUPS
    }
    result = nothing_written(plan_of(standing, WANTED))
    assert (result.exit_code, result.run, result.journal) == (ExitCode.REFUSED, "", "")
    assert nothing_written(plan_of(standing, [])).exit_code is ExitCode.DONE


def crashes() -> Iterator[tuple[str, Callable[[Standing], Journal]]]:
    """Before, inside and after each effect."""
    for number in range(len(WANTED)):

        def inside(standing: Standing, number: int = number) -> Journal:
            def crash(count: int) -> None:
                if count == number:
                    raise Crash

            standing.at_effect = crash
            return Journal()

        yield f"effect-{number}", inside
    for when in ("before", "after"):
        for kind in ("began", "intent", "outcome", "ended"):
            for nth in range(3):

                def around(
                    standing: Standing, when: str = when, kind: str = kind, nth: int = nth
                ) -> Journal:
                    seen = iter(range(100))
                    return Journal(lambda w, k: (w, k) == (when, kind) and next(seen) == nth)

                yield f"{when}-{kind}-{nth}", around


@pytest.mark.parametrize("crash", [c for _, c in crashes()], ids=[name for name, _ in crashes()])
@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
def test_a_crash_anywhere_leaves_a_journal_that_undo_can_use(
    crash: Callable[[Standing], Journal], torn: bool
) -> None:
    before, standing = cluster(), cluster()
    plan = plan_of(standing, WANTED)
    journal = crash(standing)
    crashed = False
    try:
        execute(standing, plan, journal)
    except Crash:
        crashed = True
    left = standing.copy()
    # The last line may be half on disk: what it announces was not begun, unless it was whole.
    entries = [json.loads(line) for line in journal.lines]
    if torn and crashed and entries and not was_begun(entries[-1], standing):
        entries = entries[:-1]
    run = read_run(entries)
    changed = {key for key in left.stands() if left.stands()[key] != before.stands().get(key)}
    told = {(change.group, change.partition): change for change in run.changes} if run else {}
    assert changed <= told.keys(), "something was written that the journal does not tell of"
    for key, change in told.items():
        assert change.before == before.stands().get(key)
        assert left.stands().get(key) in (change.before, change.to)
    if run is None:
        assert left.stands() == before.stands()
        return
    assert run.ended == (not crashed or entries[-1]["entry"] == "ended")
    result = undo(left, run)
    assert result.exit_code is ExitCode.DONE
    assert left.stands() == before.stands()


def was_begun(entry: Entry, standing: Standing) -> bool:
    groups = {name for name, _, _ in standing.effects}
    return entry["entry"] == "intent" and entry["group"] in groups


def test_undo_leaves_alone_what_was_moved_since() -> None:
    standing, journal = cluster(), Journal()
    execute(standing, plan_of(standing, WANTED), journal)
    held = standing.positions["a"]
    assert isinstance(held, dict)
    held[PLACES[0]] = Committed(60)
    standing.join("c")
    run = journal.read()
    assert run is not None
    result = undo(standing, run)
    assert result.exit_code is ExitCode.STOPPED
    left = {(r.line.group, r.line.partition, r.line.guard) for r in result.not_done}
    assert left == {
        ("a", PLACES[0], Guard.CHANGED_SINCE),
        ("c", PLACES[0], Guard.GROUP_ACTIVE),
        ("c", PLACES[1], Guard.GROUP_ACTIVE),
    }
    over = plan_of(standing, taken_back(run), Guard.CHANGED_SINCE, Guard.GROUP_ACTIVE)
    assert [ln.action for ln in over.lines if ln.group == "a"] == [Action.DELETE, Action.SAME]
    assert {ln.action for ln in over.lines if ln.group == "c"} == {Action.REFUSED}


@pytest.mark.parametrize(
    "entries",
    [
        [{"entry": "intent", "group": "g", "changes": []}],
        [{"entry": "began", "version": 2}],
        [{"entry": "began", "version": 1}],
        [{}],
    ],
)
def test_a_journal_that_is_none(entries: list[Entry]) -> None:
    with pytest.raises(Damaged):
        read_run(entries)
