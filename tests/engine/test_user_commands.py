"""User-supplied commands run for real, and are read back before they run again."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from drctl.engine.executing import Execution
from drctl.engine.kind import Kind, Outcome, Status
from drctl.engine.ports import CommandResult, LinkReader, LinkWriter
from drctl.engine.run_state import read_run
from drctl.model.errors import Unknown
from drctl.model.plan import Plan, Step
from drctl.steps.registry import KINDS
from tests.depth import some
from tests.engine.test_interruptions import Countdown
from tests.engine.toggles import Crash, FastClock, MemoryJournal, NoWatcher, World, kinds

WHO = {"user": "ada", "host": "laptop"}


@dataclass
class Site(World):
    """Switches that also have commands, and a person who may be present.

    Attributes:
        person: the person's answers, by the beginning of the question's id; observes by itself.
        asked: the questions that were asked.
        outcomes: what this process remembers.
    """

    folder: Path = Path()
    person: Mapping[str, bool] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    outcomes: dict[str, CommandResult] = field(default_factory=dict)
    hang: bool = False

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        self.fall(f"before {argv[0]}")
        ended = self._started(argv, env)
        self.fall(f"inside {argv[0]}")
        if self.hang:
            raise Unknown(f"{argv[0]} took too long")
        self.outcomes[identity] = ended
        self.fall(f"after {argv[0]}")
        return ended

    def run_read_only(
        self, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        self.fall(f"look {argv[0]}")
        return self._started(argv, env)

    def command_result(self, identity: str) -> CommandResult | None:
        return self.outcomes.get(identity)

    def answer(self, question: str, text: str) -> bool | None:
        self.asked.append(question)
        return self.person.get(question)

    def _started(self, argv: Sequence[str], env: Mapping[str, str]) -> CommandResult:
        try:
            done = subprocess.run(
                argv, cwd=self.folder, env=dict(env), capture_output=True, text=True, check=False
            )
        except OSError as error:
            return CommandResult(None, str(error.strerror))
        return CommandResult(done.returncode, done.stdout + done.stderr)

    @property
    def lines(self) -> list[str]:
        path = self.folder / "done"
        return path.read_text().split() if path.exists() else []


class Looks(Site):
    """A person who observes the state and reports it."""

    def answer(self, question: str, text: str) -> bool | None:
        self.asked.append(question)
        return bool(self.lines) != question.endswith(".undo")


def shell(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


APPEND = shell("echo did >> done")
REMOVE = shell("rm -f done")
LOOK = shell("test -s done")


def settings(**more: Any) -> dict[str, Any]:
    given = {"argv": APPEND, "verify": [], "undo": [], "env": {}, "timeout_seconds": 5}
    return {"question": "cmd", **given, **more}


def plan(*, then: str = "", timeout_s: float = 0, **more: Any) -> Plan:
    """Create a plan of the command and a switch after it."""
    steps = [Step("stop", "stop"), Step("cmd", "command", settings(**more), timeout_s)]
    steps += [Step(then, then, {}, 1)] if then else []
    return Plan("test", "main", "primary", "secondary", tuple(steps))


def execution(site: Site, notes: MemoryJournal) -> Execution:
    known: dict[str, Kind] = {**KINDS, **kinds()}
    look, writer = cast(LinkReader, site), cast(LinkWriter, site)
    return Execution(known, look, writer, notes, FastClock(), NoWatcher())


def carried_out(site: Site, wanted: Plan, *numbers: int) -> Outcome:
    """Start a run, and resume it in a new process after each crash."""
    notes = MemoryJournal(site)
    for number in (*numbers, None):
        site.fall = (lambda point: None) if number is None else Countdown(number)
        site.outcomes.clear()
        try:
            if not notes.entries:
                return execution(site, notes).start(wanted, WHO)[1]
            state = read_run(notes.entries)
            if state.status:
                return Outcome(Status(state.status))
            return execution(site, notes).resume(state, WHO)
        except Crash:
            continue
    raise AssertionError("the last attempt has no crash")


def points(site: Site, wanted: Plan) -> int:
    counted = Countdown(10**9)
    site.fall = counted
    execution(site, MemoryJournal(site)).start(wanted, WHO)
    return 10**9 - counted.left


def folder(root: Path, name: str) -> Path:
    made = root / name
    made.mkdir()
    return made


@pytest.mark.slow
@pytest.mark.parametrize("verify", [[], LOOK], ids=["a person looks", "a command looks"])
@pytest.mark.parametrize("then", ["offsets", "stuck"])
def test_it_runs_once_wherever_the_process_ends(
    tmp_path: Path, verify: list[str], then: str
) -> None:
    wanted = plan(then="offsets", verify=verify, undo=REMOVE)
    stuck = {"offsets"} if then == "stuck" else set()
    whole = Looks(folder=folder(tmp_path, "whole"), stuck=stuck)
    total = points(Looks(folder=folder(tmp_path, "counted"), stuck=stuck), wanted)
    expected = carried_out(whole, wanted).status
    assert expected is (Status.REFUSED if stuck else Status.DONE)
    for number in range(total):
        site = Looks(folder=folder(tmp_path, str(number)), stuck=stuck)
        assert carried_out(site, wanted, number).status is expected, number
        assert site.lines == whole.lines == ([] if stuck else ["did"]), number


def test_it_is_not_repeated_without_a_status_command(tmp_path: Path) -> None:
    total = points(Site(folder=folder(tmp_path, "counted")), plan())
    unknown = 0
    for number in range(total):
        site = Site(folder=folder(tmp_path, str(number)))
        outcome = carried_out(site, plan(), number)
        assert len(site.lines) <= 1
        if outcome.status is Status.UNKNOWN:
            unknown += 1
            assert site.asked == ["cmd"]
            assert "--answer cmd=yes" in outcome.message
        else:
            assert (outcome.status, site.lines) == (Status.DONE, ["did"])
    assert unknown >= 3


def test_it_runs_again_if_a_person_states_that_it_did_not_run(tmp_path: Path) -> None:
    site = Site(folder=tmp_path, person={"cmd": False})
    notes = MemoryJournal(site)

    def before(point: str) -> None:
        if point.startswith("before /bin/sh"):
            raise Crash

    site.fall = before
    with pytest.raises(Crash):
        execution(site, notes).start(plan(), WHO)
    site.fall = lambda point: None
    assert execution(site, notes).resume(read_run(notes.entries), WHO).status is Status.DONE
    assert site.lines == ["did"]


def test_an_effect_that_already_holds_is_neither_applied_nor_rolled_back(tmp_path: Path) -> None:
    (tmp_path / "done").write_text("before\n")
    site = Site(folder=tmp_path, stuck={"offsets"})
    outcome = carried_out(site, plan(then="offsets", verify=LOOK, undo=REMOVE))
    assert outcome.status is Status.REFUSED
    assert site.lines == ["before"]


def test_a_failing_command_is_reported_with_its_output_and_rolled_back(tmp_path: Path) -> None:
    site = Site(folder=tmp_path)
    outcome = carried_out(site, plan(argv=shell("echo no such unit >&2; exit 4"), undo=REMOVE))
    assert outcome.status is Status.REFUSED
    assert "exited with 4: no such unit" in outcome.message
    assert not site.on["stop"]


def test_a_failing_command_counts_as_done_if_the_status_command_confirms_it(tmp_path: Path) -> None:
    argv = shell("echo did >> done; exit 1")
    assert carried_out(Site(folder=tmp_path), plan(argv=argv, verify=LOOK)).status is Status.DONE


def test_a_command_that_cannot_be_started_changed_nothing(tmp_path: Path) -> None:
    site = Site(folder=tmp_path)
    outcome = carried_out(site, plan(argv=["./missing"]))
    assert outcome.status is Status.REFUSED
    assert "`./missing` could not be started: No such file or directory" in outcome.message
    outcome = carried_out(site, plan(verify=["./missing"]))
    assert outcome.status is Status.REFUSED
    assert site.lines == []


def test_a_command_without_a_rollback_stays_and_is_named(tmp_path: Path) -> None:
    site = Site(folder=tmp_path, stuck={"offsets"})
    outcome = carried_out(site, plan(then="offsets"))
    assert outcome.status is Status.STOPPED
    assert outcome.items == (
        "cmd: no undo command is configured: roll the effect back yourself, then pass"
        " --answer cmd.undo=yes",
    )
    assert not site.on["stop"]


def test_a_command_that_timed_out_has_an_unknown_result(tmp_path: Path) -> None:
    site = Site(folder=tmp_path, hang=True)
    assert carried_out(site, plan()).status is Status.UNKNOWN
    assert carried_out(Site(folder=folder(tmp_path, "x"), hang=True), plan(verify=LOOK)).status is (
        Status.DONE
    )


def test_a_command_gets_no_shell_and_only_its_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRCTL_PLANTED", "secret")
    argv = ["/usr/bin/env"]
    site = Site(folder=tmp_path)
    assert carried_out(site, plan(argv=argv, env={"GIVEN": "a; b $(c)"})).status is Status.DONE
    (ended,) = site.outcomes.values()
    assert ended.output.strip() == "GIVEN=a; b $(c)"


def by_people() -> Plan:
    """Create two manual steps between switches."""
    asked = {"text": "do it", "undo": "take it back"}
    return Plan(
        "test",
        "main",
        "primary",
        "secondary",
        (
            Step("fence", "fence", {}, 1),
            Step("stopped", "manual-stop-replication", {"question": "stopped", **asked}, 0),
            Step("told", "manual", {"question": "told", **asked}, 0),
            Step("offsets", "offsets", {}, 1),
        ),
    )


@pytest.mark.parametrize("stuck", [(), ("offsets",)], ids=["all goes well", "it turns back"])
def test_manual_steps_end_the_same_after_a_crash(tmp_path: Path, stuck: tuple[str, ...]) -> None:
    says = {"stopped": True, "stopped.undo": True, "told": True}

    def site() -> Site:
        return Site(folder=tmp_path, person=says, stuck=set(stuck))

    whole = site()
    expected = carried_out(whole, by_people())
    assert expected.status is (Status.REFUSED if stuck else Status.DONE)
    assert set(whole.asked) == ({*says} if stuck else {"stopped", "told"})
    for number in some(range(points(site(), by_people()))):
        again = site()
        assert carried_out(again, by_people(), number).status is expected.status, number
        assert again.on == whole.on, number


def test_an_unconfirmed_rollback_keeps_the_run_open(tmp_path: Path) -> None:
    site = Site(folder=tmp_path, person={"stopped": True})
    outcome = carried_out(site, by_people())
    assert outcome.status is Status.STOPPED
    assert outcome.items == (
        "stopped: not answered: take it back: answer in a terminal or pass"
        " --answer stopped.undo=yes",
    )
    assert not site.on["fence"]
