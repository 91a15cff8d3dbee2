"""The primary is lost while replication lags: clients move, and in the end they come home.

A real application writes, real groups read and commit. The truth is gathered beside drctl: which
records were acknowledged, what each group read on either side, what plain consumers find in both
topics. The groups must skip none of what the secondary has, and `drctl gap` must name exactly the
records that never got there. `drctl failback` then brings them over, and leads everybody home:
nothing is lost, nothing is there twice, no group skips, and records of a key keep their order.
"""

import signal
from collections.abc import Mapping

from drctl.lab.flights import flights
from drctl.lab.loads import PARTITIONS, acknowledged_rows
from drctl.lab.mirrors import await_state
from drctl.lab.reading import Position, count_of, read_topic
from drctl.lab.scenarios import way_back
from drctl.lab.scenarios.company import Company, Script, company
from drctl.lab.scenarios.homecoming import go_home
from drctl.lab.scenarios.reader import Reader
from drctl.lab.scenarios.returning import bring_back
from drctl.lab.scenarios.stage import Ending, Stage, Tracker
from drctl.lab.scenarios.truth import GroupTruth, group_truth, in_table, require_kept
from drctl.lab.waiting import Patience
from drctl.model.errors import ExitCode, Stopped

_FAST = 10_000
_STATE_S = 60


def play(stage: Stage, script: Script | None = None) -> Ending:
    """Lose the primary, fail over, go on on the secondary, get the primary back, and go home.

    Raises:
        Stopped: a part of the lab, or drctl, did not do what the story needs.
    """
    with company(stage, script or Script()) as people:
        stage.act(1, "Work: an application writes to the primary, groups read there and commit")
        with stage.tracked() as tracker:
            _work(people, tracker)
            _lose(people)
        _fail_over(people)
        _go_on(people)
        rows = {row.number: row.value for row in flights(0, people.writer.next_row)}
        there = _held(people, rows)
        groups = [_truth(each, there) for each in people.readers]
        stage.tell(f"\n{in_table(groups)}")
        report = stage.reports()[-1]
        try:
            gap = bring_back(people, there, rows)
            home = go_home(people, gap.page.parent)
        finally:
            way_back.remove(stage.lab)
    skipped = sum(each.skipped for each in groups)
    said = f"{_of_groups(groups, len(there))}\n{gap.words}\n{home.words}"
    true = not skipped and all(each.after for each in groups) and gap.true and home.true
    words = f"{'True' if true else 'WRONG'}: {said}"
    return Ending(true, words, gap.page, report, home.report)


def _work(people: Company, tracker: Tracker) -> None:
    stage, script, writer = people.stage, people.script, people.writer
    stage.tell(f"{script.before:,} real records (flights of 2013) go into topic {script.topic}")
    writer.write(script.before, _FAST)
    for each in people.readers:
        stage.tell(f"  group {each.habit.group} {_in_words(each)}")
        each.start()
    writer.start(script.rate)
    stage.tell(f"the application goes on, with {script.rate:,} records a second")
    target = stage.lab.cluster("secondary")
    people.wait(
        "MirrorMaker 2 copies to the secondary",
        lambda: count_of(target, script.topic) >= script.before,
    )
    people.wait("every group reads", lambda: all(map(_settled, people.readers)))
    seen = tracker.passes()
    # The pass under way may have begun before the last of them settled.
    people.wait("drctl offsets track sees the groups", lambda: tracker.passes() > seen + 1)
    stage.tell("MirrorMaker 2 copies; drctl offsets track notes where the groups stand")


def _in_words(reader: Reader) -> str:
    habit = reader.habit
    if habit.most:
        return f"reads about {habit.most:,} of them, and rests"
    return f"is slow: {habit.rate:,} records a second" if habit.rate else "keeps up"


def _settled(reader: Reader) -> bool:
    committed = reader.committed("primary")
    return len(committed) == PARTITIONS and sum(committed.values()) >= reader.habit.most


def _lose(people: Company) -> None:
    stage, writer, behind = people.stage, people.writer, people.script.behind
    stage.act(2, "Loss: replication hangs, then the primary dies in the middle of writes")
    stage.lab.signal("connect", signal.SIGSTOP)
    stage.tell("MirrorMaker 2 hangs (SIGSTOP); the application goes on")
    seen = writer.acknowledged("primary")
    try:
        people.wait(
            "the primary acknowledges", lambda: writer.acknowledged("primary") >= seen + behind
        )
        stage.lab.signal("primary", signal.SIGKILL)
        writer.ask_to_stop()
    finally:
        stage.lab.signal("connect", signal.SIGCONT)
    stage.tell("the primary is lost (SIGKILL); MirrorMaker 2 answers again, and finds nobody")
    stage.tell(f"{writer.acknowledged('primary'):,} records were acknowledged by the primary")
    parts = stage.lab.parts
    client = parts.worker.client()
    try:
        await_state(client, parts.directions, ("RUNNING",), Patience.of(_STATE_S))
    finally:
        client.close()


def _fail_over(people: Company) -> None:
    stage = people.stage
    stage.act(3, "Failover: the plan first, then the same with --execute")
    words = ("failover", "--mode", "unplanned")
    if stage.drctl(*words) != ExitCode.DONE:
        raise Stopped("something stands against the plan")
    stage.tell("")
    code = stage.drctl(*words, "--execute", "--yes")
    if code not in (ExitCode.DONE, ExitCode.FOUND):
        raise Stopped(f"drctl failover ended with exit code {code}")
    if people.signpost.cluster().name != "secondary":
        raise Stopped("the failover did not point the applications to the secondary")


def _go_on(people: Company) -> None:
    stage, writer, after = people.stage, people.writer, people.script.after
    stage.act(4, "Work goes on: the applications look at their endpoint, and find the secondary")
    writer.stop()
    stage.tell(f"of {writer.failed('primary'):,} records nobody knows what became of them")
    stage.tell(f"the application writes {after:,} records to the secondary")
    writer.write(after)
    end = count_of(stage.lab.cluster("secondary"), people.script.topic)
    stage.tell("every group reads from its position to the end")
    people.wait(
        "every group reads to the end of the secondary",
        lambda: all(sum(each.committed("secondary").values()) == end for each in people.readers),
    )
    people.leave()


def _held(people: Company, rows: Mapping[int, bytes]) -> Mapping[Position, bytes]:
    """What the secondary has, all that it acknowledged among it."""
    topic = people.script.topic
    there = read_topic(people.stage.lab.cluster("secondary"), topic)
    acknowledged = acknowledged_rows(people.writer.log("secondary"), topic)
    require_kept("the secondary", there, acknowledged, rows)
    return there


def _truth(reader: Reader, there: Mapping[Position, bytes]) -> GroupTruth:
    group = reader.habit.group
    return group_truth(group, reader.reads("primary"), reader.reads("secondary"), there.values())


def _of_groups(groups: list[GroupTruth], held: int) -> str:
    twice = sum(each.twice for each in groups)
    skipped = {each.group: each.skipped for each in groups if each.skipped}
    told = "; ".join(f"{group} skipped {count:,}" for group, count in skipped.items())
    return (
        f"of the {held:,} records of the secondary, {len(groups)} groups skipped "
        f"{told or 'none'}; {twice:,} were read twice."
    )
