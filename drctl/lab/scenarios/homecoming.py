"""Everybody goes home: records are decided on, what is new travels back, clients follow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from drctl.lab.flights import flights
from drctl.lab.loads import acknowledged_rows
from drctl.lab.reading import count_of, read_topic
from drctl.lab.scenarios.company import Company
from drctl.lab.scenarios.home_truth import Kept, finished, kept_on, skipped
from drctl.lab.scenarios.reader import Habit, Reader
from drctl.lab.settings import CLUSTERS
from drctl.model.errors import ExitCode, Stopped
from drctl.reconcile.policy import QUARANTINE

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
    told += [_in_words(each) for each in kept]
    told.append(f"{len(gone)} groups skipped {sum(gone.values()):,}")
    words = "; ".join(told)
    return Home(true, f"{words}; {len(aside):,} older ones are in quarantine.", report)


def _read(before: Reader, after: Reader) -> tuple[set[bytes], ...]:
    """What a group has read, on either side of each move."""
    return (
        finished(before.reads("primary")),
        set(before.reads("secondary").values.values()),
        finished(after.reads("secondary")),
        set(after.reads("primary").values.values()),
    )


def _in_words(kept: Kept) -> str:
    return (
        f"{kept.cluster} holds {kept.held:,}: {kept.lost:,} lost, {kept.twice:,} twice,"
        f" {kept.disordered:,} out of order by key"
    )
