"""Round plans: the same seed gives the same one; together they cover every fault."""

from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

from drctl.reconcile.policy import POLICIES
from tests.soak.engineer import Attempt
from tests.soak.fault_injection import Injected
from tests.soak.judging import judge
from tests.soak.logs import Acknowledged, Committed, Failed, Line, Log, Processed, What, read_log
from tests.soak.report import repeat, reported, table
from tests.soak.round import Result
from tests.soak.round_plan import (
    ALIVE_ONLY,
    DISKS,
    LINES,
    ONE_BROKER,
    PRIMARY,
    ROLLS,
    SANDBOXED,
    Back,
    Fault,
    Injection,
    Out,
    RoundPlan,
    Way,
    draw,
)
from tests.soak.test_judging import VALUES, fine, on

PLANS = tuple(draw(seed) for seed in range(1200))
BY_ONE = set(Fault) - set(ONE_BROKER)
"""Faults that are possible with one broker per cluster."""


def test_the_same_seed_gives_the_same_plan() -> None:
    assert tuple(draw(seed) for seed in range(1200)) == PLANS
    assert len({replace(plan, seed=0) for plan in PLANS}) == len(PLANS)


def test_every_loss_every_fault_and_every_kind_of_work_occurs() -> None:
    assert set(Counter(plan.out for plan in PLANS)) == set(Out)
    assert {(plan.back, plan.policy) for plan in PLANS} == set(product(Back, POLICIES))
    assert len({plan.work for plan in PLANS}) == 8
    faults = {injection.fault for plan in PLANS for injection in plan.on_failback}
    assert faults == BY_ONE - {Fault.WAKE}
    for out in Out:
        away = {s.fault for plan in PLANS if plan.out is out for s in plan.on_failover}
        assert away == BY_ONE - ({Fault.WAKE} if out is not Out.FROZEN else set()) - (
            ALIVE_ONLY if out is not Out.PLANNED else set()
        )


def test_every_line_is_cut_in_every_direction() -> None:
    cuts = {(s.line, s.way) for p in PLANS for s in p.on_failback if s.fault is Fault.PARTITION}
    assert cuts == set(product(LINES, Way))
    lost = (s for p in PLANS if p.out is not Out.PLANNED for s in p.on_failover)
    assert not [each for each in lost if PRIMARY in each.line]


def test_faults_that_are_not_possible_are_left_out_visibly() -> None:
    for plan in PLANS:
        kept = plan.without(SANDBOXED)
        faults = [each.fault for each in (*kept.on_failover, *kept.on_failback)]
        assert not SANDBOXED & set(faults)
        drawn = Counter((*plan.on_failover, *plan.on_failback))
        assert Counter((*kept.on_failover, *kept.on_failback, *kept.left_out)) == drawn
    cut = next(p for p in PLANS if p.on_failover[0].fault is Fault.PARTITION).without(SANDBOXED)
    lines = list(reported(result(cut, good=True)))
    assert any(line.startswith("  not possible here: partition ") for line in lines)
    assert "1 faults that are not possible here were left out" in list(
        table([result(replace(cut, left_out=cut.left_out[:1]), good=True)])
    )


def test_with_several_brokers_one_fails_or_all_are_restarted_in_each_direction() -> None:
    wide = tuple(draw(seed, brokers=3) for seed in range(1200))
    for out in Out:
        dying = [plan.on_failover[-1] for plan in wide if plan.out is out]
        dead = ALIVE_ONLY if out is not Out.PLANNED else frozenset[Fault]()
        assert {each.fault for each in dying} == {*ONE_BROKER, *ROLLS} - dead
        assert {each.node for each in dying} == {0, 1, 2, 3}
    last = [plan.on_failback[-1] for plan in wide]
    killed = {(each.fault, each.node) for each in last if each.fault in ONE_BROKER}
    assert killed == set(product(ONE_BROKER, (1, 2, 3)))
    disks = {s.node for plan in wide for s in plan.on_failback if s.fault in DISKS}
    assert disks == {1, 2, 3}
    assert repeat(wide[7]) == "python -m tests.soak --seed 7 --rounds 1 --brokers 3"


def test_an_injection_can_follow_any_step() -> None:
    steps = ("a", "b", "c")
    assert [Injection(Fault.DRCTL, at, 0).step_of(steps) for at in (0, 0.34, 0.999)] == list(steps)


def test_application_logs_are_read_back(tmp_path: Path) -> None:
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


def result(plan: RoundPlan, *, good: bool) -> Result:
    seen = fine() if good else on(fine(), "primary", *VALUES[:5])
    injected = (Injected(Injection(Fault.CONNECT, 0.5, 1.25), "drain", 9.0),)
    seconds = {"failover": 21.0, "failback": 64.4}
    return Result(plan, Path("round-7"), seconds, injected, TYPED, judge(seen))


def test_summary_of_good_and_bad_rounds() -> None:
    plan = draw(7)
    line, commands = reported(result(plan, good=True))
    assert commands == "  drctl: failover killed, resume 0"
    assert line.startswith(f"seed 7  good  {plan.out}, {plan.back} {plan.policy}, {plan.work}; ")
    assert "; kill-connect 1.2 s after drain; 85 s (failover 21, failback 64); " in line
    assert line.endswith("6 acknowledged: 0 lost, 0 skipped, 0 out of order, 0 duplicated")
    lines = list(reported(result(plan, good=False)))
    assert "  BAD  " in lines[0]
    assert "  lost on primary: 1, such as w0-5" in lines
    assert lines[-1] == f"  repeat: {repeat(plan)}"
    assert lines[-1].endswith("python -m tests.soak --seed 7 --rounds 1")


def test_a_round_with_a_wrong_result_of_drctl_is_bad() -> None:
    crash = Attempt(("resume", "--execute"), 70, 1.0, "exit code 70 and a traceback: KeyError: 'y'")
    crashed = replace(result(draw(7), good=True), attempts=(*TYPED, crash))
    assert not crashed.good
    lines = list(reported(crashed))
    assert "  BAD  " in lines[0]
    assert "  drctl resume --execute: exit code 70 and a traceback: KeyError: 'y'" in lines
    assert "3 drctl commands, 1 killed, 1 with a wrong result" in list(table([crashed]))


def test_restarted_clients_are_reported() -> None:
    helped = replace(result(draw(7), good=True), rejoined=2)
    words = "clients restarted after being in no group for too long: 2"
    assert [line for line in reported(helped) if words in line]
    assert "2 clients restarted after being in no group for too long" in list(table([helped]))
    assert not [line for line in table([result(draw(7), good=True)]) if "restarted" in line]


def test_no_table_without_rounds() -> None:
    assert list(table([])) == ["no round finished"]


def test_the_table_counts_rounds_and_faults() -> None:
    rounds = [result(draw(7), good=True), result(draw(8), good=False)]
    spared = replace(result(draw(9), good=True), injected=())
    drawn = sum(len(each.plan.on_failover + each.plan.on_failback) for each in (*rounds, spared))
    lines = list(table([*rounds, spared]))
    assert lines[0].split()[:3] == ["seed", "failover", "faults"]
    assert lines[1].split()[0] == "7"
    assert lines[2].split()[:2] == ["8", "BAD"]
    summary = lines[lines.index("") + 1 :]
    assert summary[:2] == [
        "3 rounds, 1 bad, 1 without an injected fault",
        "6 drctl commands, 3 killed, 0 with a wrong result",
    ]
    assert summary[-2:] == [
        "85 s per round: failover 21.0, failback 64.4",
        f"2 of {drawn} faults injected: 2 kill-connect",
    ]
