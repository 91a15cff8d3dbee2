"""The primary is lost while replication lags: clients move, and in the end they come home.

A real application writes, real groups read and commit. The truth is gathered beside drctl: which
records were acknowledged, what each group read on either side, what plain consumers find in both
topics. The groups must skip none of what the secondary has, and `drctl gap` must name exactly the
records that never got there. `drctl failback` then brings them over, and leads everybody home:
nothing is lost, nothing is there twice, no group skips, and records of a key keep their order.
"""

import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from drctl.lab.cluster import Position, count_of, read_topic
from drctl.lab.loading import Row, flights
from drctl.lab.loads import PARTITIONS, acknowledged_rows
from drctl.lab.mirrors import await_state
from drctl.lab.scenarios.clients import RUNBOOKS, Company, Habit, Reader, Script, company
from drctl.lab.scenarios.ground_truth import (
    GroupTruth,
    gap_truth,
    group_truth,
    in_table,
    judge_gap,
    require_kept,
)
from drctl.lab.scenarios.stage import Ending, Stage, Tracker, deploy, remove
from drctl.lab.settings import CLUSTERS
from drctl.lab.waiting import Patience
from drctl.model.errors import ExitCode, Stopped
from drctl.reconcile.policy import QUARANTINE

CLOSE = "close-the-primary"
RUNBOOK = f"""\
name: {CLOSE}
about: |
  The lost primary is back, and the failover still owes its fence. Nobody writes to it, and nothing
  replicates from it, until its records are found.
steps:
  - id: secondary-works
    check: [target-unreachable]
  - id: snapshot-state
    step: snapshot-state
  - id: replication-stays-stopped
    wait: {{for: connectors stopped, at_most: 30s}}
  - id: close
    step: fence-producers
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """What was missing, and whether drctl said so.

    Attributes:
        words: both, in a sentence or two.
    """

    true: bool
    words: str
    page: Path


def bring_back(people: Company, there: Mapping[Position, bytes], rows: Mapping[int, bytes]) -> Gap:
    """Start the primary, fence it, and let drctl find what never got to the secondary.

    Args:
        there: what the secondary has.
        rows: the records by their numbers.

    Raises:
        Stopped: it does not come back, or lost what it had acknowledged.
    """
    stage, topic = people.stage, people.script.topic
    stage.act(5, "The primary comes back: it is fenced, then its records are looked for")
    stage.lab.start("primary")
    deploy(stage.lab, topic)
    _close(people)
    stage.tell("")
    out = stage.folder / "gap"
    stage.tell("so few records drctl would compare by itself; here Spark does, as with many")
    code = stage.drctl("gap", "--engine", "spark", "--out", str(out))
    answer = stage.answer(out)
    primary = read_topic(stage.lab.cluster("primary"), topic)
    acknowledged = acknowledged_rows(people.writer.log("primary"), topic)
    require_kept("the primary", primary, acknowledged, rows)
    truth = gap_truth(primary, there.values(), acknowledged)
    verdict = judge_gap(truth, answer, code)
    said = (
        f"The primary had acknowledged {truth.acknowledged:,} records; {len(truth.missing):,} of "
        f"its records never reached the secondary ({truth.promised:,} of them acknowledged)."
    )
    named = "exactly these" if not verdict.differing else f"{verdict.named:,}: {verdict.differing}"
    spark = answer["engine"] == "spark"
    how = f"compared by {'Spark' if spark else 'drctl, not by Spark'}, in {answer['seconds']:.1f} s"
    words = f"{said} drctl gap named {named} ({how})."
    return Gap(spark and not verdict.differing, words, out / "gap.html")


def _close(people: Company) -> None:
    folder = people.stage.folder / RUNBOOKS
    folder.mkdir(exist_ok=True)
    (folder / f"{CLOSE}.yaml").write_text(RUNBOOK, encoding="utf-8")
    code = people.stage.drctl("runbook", "run", CLOSE, "--execute", "--yes")
    if code != ExitCode.DONE:
        raise Stopped(f"runbook {CLOSE} ended with exit code {code}")


Held = Mapping[Position, bytes]


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of records on one cluster.

    Attributes:
        lost: acknowledged ones that it does not hold, and nobody decided to leave behind.
        twice: how many are there more often than once.
        disordered: records behind a later one of their key.
    """

    cluster: str
    held: int
    lost: int
    twice: int
    disordered: int

    @property
    def true(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.twice or self.disordered)


def kept_on(
    cluster: str, held: Held, acknowledged: Set[int], rows: Sequence[Row], aside: Set[bytes]
) -> Kept:
    """Hold a cluster against what was acknowledged, by either.

    Args:
        acknowledged: numbers of rows.
        rows: all that were tried, by their numbers.
        aside: values that were put aside by decision.
    """
    counted = Counter(held.values())
    lost = sum(rows[n].value not in counted and rows[n].value not in aside for n in acknowledged)
    twice = counted.total() - len(counted)
    return Kept(cluster, len(held), lost, twice, _disordered(held, rows))


def _disordered(held: Held, rows: Sequence[Row]) -> int:
    """The application writes its rows in the order of their numbers."""
    known = {row.value: row for row in rows}
    last: dict[bytes, int] = {}
    found = 0
    for position in sorted(held):
        row = known[held[position]]
        if row.key is not None:
            found += row.number < last.get(row.key, -1)
            last[row.key] = max(row.number, last.get(row.key, -1))
    return found


def skipped(home: Iterable[bytes], aside: Set[bytes], read: Iterable[Set[bytes]]) -> int:
    """How many records of the home cluster a group has read nowhere, but those put aside."""
    return len(set(home).difference(aside, *read))


_WORDS = ("failback", "--policy", "copy", "--conflicting", "quarantine", "--grace", "2s")

_LESS = 8
"""The application writes so much less than before: a run takes its time."""


@dataclass(frozen=True, slots=True)
class Home:
    """How it ended.

    Attributes:
        words: what was held against the truth, in a sentence or two.
        report: the page of the run.
    """

    true: bool
    words: str
    report: Path


def go_home(people: Company, gap: Path) -> Home:
    """Judge the order of things, lead everybody home, and hold it against the truth.

    Args:
        gap: the folder of what drctl gap found.

    Raises:
        Stopped: a part of the lab, or drctl, did not do what the story needs.
    """
    stage = people.stage
    stage.act(6, "Order: what has happened, and what comes next, as seen on both clusters")
    code = stage.drctl("failback", "--check-order", "--gap", str(gap))
    if code != ExitCode.DONE:
        raise Stopped(f"drctl failback --check-order ended with exit code {code}")
    with _back_at_work(people) as others:
        _move(others)
        _work_at_home(others)
    return _judged(people, others.readers, stage.reports()[-1])


@contextmanager
def _back_at_work(people: Company) -> Iterator[Company]:
    """New members of all groups, that keep up; the application is still quiet."""
    topic, signpost = people.script.topic, people.signpost
    groups = [each.habit.group for each in people.readers]
    readers = tuple(Reader(signpost, topic, Habit(group)) for group in groups)
    for each in readers:
        each.start()
    try:
        yield replace(people, readers=readers)
    finally:
        people.writer.ask_to_stop()
        for each in readers:
            each.ask_to_stop()


def _move(people: Company) -> None:
    stage, writer = people.stage, people.writer
    stage.act(7, "Home: the plan first, then the same with --execute, while work goes on")
    if stage.drctl(*_WORDS) != ExitCode.DONE:
        raise Stopped("something stands against the plan")
    stage.tell("")
    with stage.running(*_WORDS, "--execute", "--yes") as run:
        # What is written while records are brought over could be newer than one of them.
        people.wait("records are brought over", lambda: run.has_done("reconcile"))
        rate = people.script.rate // _LESS
        stage.tell(f"the application goes on, with {rate:,} records a second")
        writer.start(rate)
        code = run.ended()
    if code != ExitCode.DONE:
        raise Stopped(f"drctl failback ended with exit code {code}")
    if people.signpost.cluster().name != "primary":
        raise Stopped("the failback did not point the applications to the primary")


def _work_at_home(people: Company) -> None:
    stage, writer, script = people.stage, people.writer, people.script
    stage.act(8, "Proof: the applications work at home, and everything is counted")
    before = writer.acknowledged("primary")
    people.wait(
        "the application writes at home",
        lambda: writer.acknowledged("primary") >= before + script.home,
    )
    writer.stop()
    home = stage.lab.cluster("primary")
    end = count_of(home, script.topic)
    people.wait(
        "every group reads to the end of the primary",
        lambda: all(sum(each.committed("primary").values()) == end for each in people.readers),
    )
    away = stage.lab.cluster("secondary")
    wanted = len(set(read_topic(home, script.topic).values()))
    aside = len(read_topic(away, QUARANTINE + script.topic))
    people.wait(
        "MirrorMaker 2 copies to the secondary again",
        lambda: count_of(away, script.topic) + aside >= wanted,
    )
    people.leave()


def _judged(people: Company, after: Sequence[Reader], report: Path) -> Home:
    topic, lab, writer = people.script.topic, people.stage.lab, people.writer
    rows = tuple(flights(0, writer.next_row))
    acknowledged = {
        row for name in CLUSTERS for row in acknowledged_rows(writer.log(name), topic).values()
    }
    held = {name: read_topic(lab.cluster(name), topic) for name in CLUSTERS}
    aside = set(read_topic(lab.cluster("secondary"), QUARANTINE + topic).values())
    kept = [
        kept_on("primary", held["primary"], acknowledged, rows, frozenset()),
        kept_on("secondary", held["secondary"], acknowledged, rows, aside),
    ]
    gone = {
        each.habit.group: skipped(held["primary"].values(), aside, _read(each, again))
        for each, again in zip(people.readers, after, strict=True)
    }
    true = all(each.true for each in kept) and not any(gone.values()) and bool(acknowledged)
    told = [f"Of {len(acknowledged):,} records that either cluster had acknowledged"]
    told += [
        f"{each.cluster} holds {each.held:,}: {each.lost:,} lost, {each.twice:,} twice,"
        f" {each.disordered:,} out of order by key"
        for each in kept
    ]
    told.append(f"{len(gone)} groups skipped {sum(gone.values()):,}")
    words = "; ".join(told)
    return Home(true, f"{words}; {len(aside):,} older ones are in quarantine.", report)


def _read(before: Reader, after: Reader) -> tuple[set[bytes], ...]:
    """What a group has read, on either side of each move."""
    return (
        before.reads("primary").finished,
        set(before.reads("secondary").values.values()),
        after.reads("secondary").finished,
        set(after.reads("primary").values.values()),
    )


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
        for line in ("", *in_table(groups).splitlines()):
            stage.tell(line)
        report = stage.reports()[-1]
        try:
            gap = bring_back(people, there, rows)
            home = go_home(people, gap.page.parent)
        finally:
            remove(stage.lab)
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
