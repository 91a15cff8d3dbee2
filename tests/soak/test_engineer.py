"""The engineer: which exit codes are drctl's fault, and when a leg is over."""

import json
import shlex
import subprocess
import threading
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from drctl.model.errors import Stopped
from tests.soak import engineer as engineers
from tests.soak.engineer import Attempt, Engineer, wrong_ending
from tests.soak.fault_injection import Injector
from tests.soak.sandbox import SECOND

TRACEBACK = "a bug in drctl\nTraceback (most recent call last):\n  File x\nKeyError: 'y'\n"
RUN = "2026-01-01-failover"


class Played:
    """A scripted drctl: one answer per command."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.program = folder / "drctl"
        self.program.write_text(f"#!/bin/sh\ncd {folder}\nread n < next\n. ./answer-$n\n")
        self.program.chmod(0o755)
        (folder / "next").write_text("1\n")

    def answers(self, code: int | str, stdout: str = "", stderr: str = "", then: str = "") -> None:
        """Let the next command end with this code or signal."""
        self._count += 1
        lines = (
            f"echo {self._count + 1} > next",
            then,
            f"printf %s {shlex.quote(stdout)}",
            f"printf %s {shlex.quote(stderr)} >&2",
            f"exit {code}" if isinstance(code, int) else f"kill -{code} $$",
        )
        (self._folder / f"answer-{self._count}").write_text("\n".join(filter(None, lines)))

    def journal(self, status: str) -> None:
        """Set the status of the run that `drctl journal` shows."""
        self.answers(0, json.dumps({"runs": [{"run": RUN, "status": status}]}))


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played(tmp_path)
    monkeypatch.setattr(engineers, "DRCTL", made.program)
    monkeypatch.setattr(engineers, "_WAIT_S", 0.0)
    monkeypatch.setattr(engineers, "_LOOK_S", 0.01)
    return made


def injector_of(engineer: Engineer) -> Injector:
    return Injector(Lab(engineer.folder / "lab"), engineer.runs, frozenset())


def led(folder: Path, leg_s: float = 60) -> list[Attempt]:
    """Return what was typed until the leg was over."""
    typing = Engineer(folder, threading.Event(), leg_s)
    injector = injector_of(typing)
    typing.lead(("failover",), injector, lambda: None)
    return typing.attempts


def begun(folder: Path) -> str:
    """Create an unfinished run of the leg on this host."""
    run = folder / ".drctl" / "runs" / RUN
    return f'mkdir -p {run}; echo \'{{"entry": "run"}}\' > {run}/journal.jsonl'


@pytest.mark.parametrize("precheck", ["source-moved", "incomplete"])
def test_records_are_compared_again_if_the_result_is_outdated(
    played: Played, tmp_path: Path, precheck: str
) -> None:
    played.answers(3, json.dumps({"blockers": [{"precheck": precheck}]}))
    played.answers(1)
    played.answers(0)
    typing = Engineer(tmp_path, threading.Event(), 60)
    words = ("reconcile", "--link", "dr", "--policy", "copy")
    typing.lead(words, injector_of(typing), lambda: None)
    assert [each.words for each in typing.attempts] == [
        (*words, "--execute", "--yes"),
        ("gap", "--scope", "full", "--link", "dr"),
        (*words, "--execute", "--yes"),
    ]


def test_a_cluster_is_emptied_again_if_a_repeated_rebuild_needs_it(
    played: Played, tmp_path: Path
) -> None:
    played.answers(3, json.dumps({"error": {"message": "unanswered questions: empty-primary: x"}}))
    played.answers(0)
    emptied: list[str] = []
    typing = Engineer(tmp_path, threading.Event(), 60, emptied.append)
    words = ("failback", "--rebuild")
    typing.lead(words, injector_of(typing), lambda: None)
    assert emptied == ["primary"]
    assert [each.words for each in typing.attempts] == [
        (*words, "--execute", "--yes"),
        (*words, "--answer", "empty-primary=yes", "--execute", "--yes"),
    ]


def test_a_second_operator_has_the_published_gap_results(played: Played, tmp_path: Path) -> None:
    played.answers(3)
    played.answers(3)
    (tmp_path / "drctl.yaml").touch()
    for name in ("result", ".result"):
        (tmp_path / ".drctl" / "gap" / name).mkdir(parents=True)
    typing = Engineer(tmp_path, threading.Event(), 60)
    typing.interfere(("reconcile", "--link", "dr"), injector_of(typing))
    assert [each.words[0] for each in typing.attempts] == ["reconcile", "resume"]
    assert [each.name for each in (tmp_path / SECOND / ".drctl" / "gap").iterdir()] == ["result"]


@pytest.mark.parametrize("code", [0, 1, 3, 4, 5, -9])
def test_some_exit_codes_are_right_under_any_fault(code: int) -> None:
    assert not wrong_ending(code, "drctl: primary does not answer\n")


@pytest.mark.parametrize("code", [2, 70, 130, 120, -11, -6])
def test_other_exit_codes_are_drctls_fault(code: int) -> None:
    assert wrong_ending(code, "") == f"exit code {code}"


@pytest.mark.parametrize("code", [0, 1, 5, 70, -9])
def test_a_traceback_is_drctls_fault(code: int) -> None:
    assert wrong_ending(code, TRACEBACK) == f"exit code {code} and a traceback: KeyError: 'y'"


def test_a_fault_counts_even_if_the_leg_completed(played: Played, tmp_path: Path) -> None:
    played.answers(70, stderr=TRACEBACK)
    played.answers("SEGV")
    played.answers(3)
    played.answers(0)
    found = led(tmp_path)
    assert [each.code for each in found] == [70, -11, 3, 0]
    assert [bool(each.wrong) for each in found] == [True, True, False, False]


def test_a_killed_run_is_resumed(played: Played, tmp_path: Path) -> None:
    played.answers("KILL", then=begun(tmp_path))
    played.answers(0)
    assert [str(each) for each in led(tmp_path)] == ["failover killed", "resume 0"]


@pytest.mark.parametrize(("status", "next_word"), [("done", ""), ("unwound", "failover")])
def test_a_run_that_ended_unnoticed_is_not_resumed(
    played: Played, tmp_path: Path, status: str, next_word: str
) -> None:
    played.answers("KILL", then=begun(tmp_path))
    played.answers(2)
    played.answers(5)  # the journal cannot be read yet
    played.journal(status)
    played.answers(0)
    found = led(tmp_path)
    assert not any(each.wrong for each in found)
    words = ["failover", "resume", "journal", "journal", *filter(None, [next_word])]
    assert [each.words[0] for each in found] == words


def test_a_refused_resume_of_an_unfinished_run_is_a_fault(played: Played, tmp_path: Path) -> None:
    played.answers("KILL", then=begun(tmp_path))
    played.answers(2)
    played.journal("not-ended")
    played.answers(0)
    found = led(tmp_path)
    assert [(each.words[0], each.wrong) for each in found if each.wrong] == [
        ("resume", "exit code 2")
    ]


def test_a_leg_that_does_not_complete_is_a_failure(played: Played, tmp_path: Path) -> None:
    played.answers(0, then="exec sleep 60")
    with pytest.raises(Stopped, match="did not finish within 0 s: failover killed"):
        led(tmp_path, leg_s=0)


def interfered(folder: Path) -> list[Attempt]:
    """Return what a second operator typed."""
    (folder / "drctl.yaml").touch()
    typing = Engineer(folder, threading.Event(), 60)
    typing.interfere(("failover",), injector_of(typing))
    assert {each.host for each in typing.attempts} == {SECOND}
    return typing.attempts


def test_a_second_operator_is_refused_while_the_first_is_at_work(
    played: Played, tmp_path: Path
) -> None:
    played.answers(3)
    played.answers(3)
    found = interfered(tmp_path)
    assert list(map(str, found)) == ["failover 3 (second operator)", "resume 3 (second operator)"]


def test_a_second_operator_continues_the_run_of_a_killed_drctl(
    played: Played, tmp_path: Path
) -> None:
    played.answers(3)
    played.answers(0)
    assert [each.code for each in interfered(tmp_path)] == [3, 0]


def test_a_second_operator_may_be_too_late(played: Played, tmp_path: Path) -> None:
    subprocess.run(["/bin/sh", "-c", begun(tmp_path)], check=True)
    played.answers(3)
    played.answers(2)
    played.journal("done")
    assert not any(each.wrong for each in interfered(tmp_path))


def test_a_run_that_the_second_operator_completed_is_over(played: Played, tmp_path: Path) -> None:
    ended = (
        begun(tmp_path / SECOND) + f"; echo '{json.dumps({'entry': 'ended', 'status': 'done'})}'"
    )
    journal = tmp_path / SECOND / ".drctl" / "runs" / RUN / "journal.jsonl"
    played.answers("KILL", then=f"{begun(tmp_path)}; {ended} >> {journal}")
    assert [str(each) for each in led(tmp_path)] == ["failover killed"]
