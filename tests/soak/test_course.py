"""Courses: the same seed gives the same one, and together they hold every fault and every way."""

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

from drctl.reconcile.policy import POLICIES
from tests.soak.course import ALIVE_ONLY, ONE_BROKER, Course, Fault, Out, Strike, draw
from tests.soak.engineer import Attempt
from tests.soak.judging import judge
from tests.soak.logs import Acknowledged, Committed, Failed, Line, Log, Processed, What, read_log
from tests.soak.round import Result
from tests.soak.striking import Struck
from tests.soak.telling import repeat, table, told
from tests.soak.test_judging import VALUES, fine, on

COURSES = tuple(draw(seed) for seed in range(300))
BY_ONE = set(Fault) - set(ONE_BROKER)
"""What can be done where each cluster has one broker."""


def test_the_same_seed_gives_the_same_course() -> None:
    assert tuple(draw(seed) for seed in range(300)) == COURSES
    assert len({(c.out, c.policy, c.leaving, c.returning) for c in COURSES}) == len(COURSES)


def test_every_way_and_every_fault_comes() -> None:
    assert set(Counter(course.out for course in COURSES)) == set(Out)
    assert {course.policy for course in COURSES} == set(POLICIES)
    home = {strike.fault for course in COURSES for strike in course.returning}
    assert home == BY_ONE - {Fault.WAKE}
    for out in Out:
        away = {s.fault for course in COURSES if course.out is out for s in course.leaving}
        assert away == BY_ONE - ({Fault.WAKE} if out is not Out.FROZEN else set()) - (
            ALIVE_ONLY if out is not Out.PLANNED else set()
        )


def test_of_several_brokers_one_dies_on_each_way_beside_what_is_drawn_else() -> None:
    wide = tuple(draw(seed, brokers=3) for seed in range(300))
    for one, three in zip(COURSES, wide, strict=True):
        assert three.leaving[:-1] == one.leaving
        assert three.returning[:-1] == one.returning
        assert (three.out, three.policy, three.behind) == (one.out, one.policy, one.behind)
    for out in Out:
        dying = [course.leaving[-1] for course in wide if course.out is out]
        dead = ALIVE_ONLY if out is not Out.PLANNED else frozenset[Fault]()
        assert {each.fault for each in dying} == set(ONE_BROKER) - dead
        assert {each.node for each in dying} == {1, 2, 3}
    home = [course.returning[-1] for course in wide]
    assert {(each.fault, each.node) for each in home} == set(product(ONE_BROKER, (1, 2, 3)))
    assert repeat(wide[7]) == "python -m tests.soak --seed 7 --rounds 1 --brokers 3"


def test_a_strike_follows_any_step() -> None:
    steps = ("a", "b", "c")
    assert [Strike(Fault.DRCTL, at, 0).step_of(steps) for at in (0, 0.34, 0.999)] == list(steps)


def test_what_an_application_logs_is_read_back(tmp_path: Path) -> None:
    lines: list[Line] = [
        Acknowledged("primary", 0, 1, "w0-1"),
        Failed("primary", "w0-2", "fenced"),
        Processed(1, "secondary", 2, 3, "w0-1"),
        Committed(1, "secondary", 2, 4, What.REFUSED),
    ]
    log = Log(tmp_path / "log")
    for line in lines:
        log.write(line)
    log.close()
    with log.path.open("a", encoding="ascii") as file:
        file.write('{"is": "Acknowled')  # the process died here
    assert list(read_log(log.path)) == lines


TYPED = (Attempt(("failover",), -9, 1.0), Attempt(("resume",), 0, 9.0))


def result(course: Course, *, good: bool) -> Result:
    seen = fine() if good else on(fine(), "primary", *VALUES[:5])
    struck = (Struck(Strike(Fault.CONNECT, 0.5, 1.25), "drain", 9.0),)
    return Result(course, Path("round-7"), 21.0, 64.4, struck, TYPED, judge(seen))


def test_a_good_round_is_told_in_short_and_a_bad_one_says_how_to_repeat_it() -> None:
    course = draw(7)
    line, commands = told(result(course, good=True))
    assert commands == "  drctl: failover killed, resume 0"
    assert line.startswith(f"seed 7  good  {course.out}, {course.policy}; kill-connect 1.2 s")
    assert line.endswith("6 acknowledged: 0 lost, 0 skipped, 0 out of order, 0 twice")
    lines = list(told(result(course, good=False)))
    assert "  BAD  " in lines[0]
    assert "  lost on primary: 1, such as w0-5" in lines
    assert lines[-1] == f"  again: {repeat(course)}"
    assert lines[-1].endswith("python -m tests.soak --seed 7 --rounds 1")


def test_a_round_is_bad_where_drctl_itself_was_at_fault() -> None:
    crash = Attempt(("resume", "--execute"), 70, 1.0, "exit code 70 and a traceback: KeyError: 'y'")
    crashed = replace(result(draw(7), good=True), attempts=(*TYPED, crash))
    assert not crashed.good
    lines = list(told(crashed))
    assert "  BAD  " in lines[0]
    assert "  drctl resume --execute: exit code 70 and a traceback: KeyError: 'y'" in lines
    assert "3 commands of drctl, 1 killed, 1 at fault" in list(table([crashed]))


def test_clients_that_began_anew_are_told() -> None:
    helped = replace(result(draw(7), good=True), begun_anew=2)
    words = "clients that were in no group for long, and began anew: 2"
    assert [line for line in told(helped) if words in line]
    assert "2 clients were in no group for long, and began anew" in list(table([helped]))
    assert not [line for line in table([result(draw(7), good=True)]) if "anew" in line]


def test_where_no_round_ended_there_is_no_table() -> None:
    assert list(table([])) == ["no round was played to its end"]


def test_the_table_counts_rounds_and_faults_and_who_was_spared() -> None:
    rounds = [result(draw(7), good=True), result(draw(8), good=False)]
    spared = replace(result(draw(9), good=True), struck=())
    drawn = sum(len(each.course.leaving + each.course.returning) for each in (*rounds, spared))
    lines = list(table([*rounds, spared]))
    assert lines[0].split()[:3] == ["seed", "out", "faults"]
    assert lines[1].split()[0] == "7"
    assert lines[2].split()[:2] == ["8", "BAD"]
    assert lines[-3:] == [
        "3 rounds, 1 bad, 1 in which no fault came",
        "6 commands of drctl, 3 killed, 0 at fault",
        f"2 of {drawn} faults came: 2 kill-connect",
    ]
