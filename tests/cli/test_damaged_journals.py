"""A damaged journal is reported, shows what can be read, and does not keep its lock."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drctl.engine import entries, run_state
from drctl.stores.journal_files import LocalRuns
from drctl.views.run_data import Writes
from drctl.views.run_lines import next_steps
from drctl.views.run_reading import readable_run, report_data
from tests.cli.conftest import Run
from tests.journal.test_local_runs import BEGAN, LATER, OVER, holder
from tests.report import runs

RUN = "20260305T142007Z-main"
LINK = "cluster:main"
CONFIG = """
clusters:
  main: {bootstrap: "127.0.0.1:1"}
"""
WHY = "the journal is damaged"
AFTER = 12
"""Number of the line that is damaged."""

Lines = list[bytes]


def died() -> tuple[bytes, ...]:
    """The journal of a run whose process died in a late step."""
    dies = {**runs.GOOD, "commit-offsets": replace(runs.GOOD["commit-offsets"], dies=True)}
    played = runs.Run(runs.planned(), RUN).play(dies).entries
    lines = run_state.seal(played, run_state.first_head(RUN))
    assert len(lines) > AFTER + 3
    return lines


def not_json(lines: Lines) -> Lines:
    lines[AFTER - 1] = b"mended by hand"
    return lines


def removed(lines: Lines) -> Lines:
    del lines[AFTER - 1]
    return lines


def other_seal(lines: Lines) -> Lines:
    lines[AFTER - 1] = lines[AFTER - 1].replace(b'"at":"2', b'"at":"3')
    return lines


def unknown_kind(lines: Lines) -> Lines:
    sound, head = lines[: AFTER - 1], run_state.head_of(lines[AFTER - 2])
    later = [run_state.parse_line(line).entry for line in lines[AFTER:]]
    return [*sound, *run_state.seal([{"entry": "paused", "at": "x"}, *later], head)]


def without_the_first(lines: Lines) -> Lines:
    return lines[1:]


def other_plan(lines: Lines) -> Lines:
    first, *later = [run_state.parse_line(line).entry for line in lines]
    changed: list[Any] = [{**first, "plan": {"steps": 5}}, *later]
    return [*run_state.seal(changed, run_state.first_head(RUN))]


def empty(_: Lines) -> Lines:
    return []


READABLE = {
    not_json: "line 12 was changed: it is not a journal line",
    removed: "line 12 was removed: line 13 of the chain is in its place",
    other_seal: "line 12 was changed: it does not match its checksum",
    unknown_kind: "'paused' is not a valid What",
}
UNREADABLE = {
    without_the_first: "line 1 was removed: line 2 of the chain is in its place",
    other_plan: "cannot be read",
    empty: "is empty: its process ended before it wrote anything, or the file was truncated",
}


class Here:
    """A run whose journal is only on this host."""

    def __init__(self, folder: Path, drctl: Run) -> None:
        (folder / "drctl.yaml").write_text(CONFIG)
        self.drctl = drctl
        self.folder = folder / ".drctl" / "runs"
        self.file = self.folder / RUN / "journal.jsonl"
        with LocalRuns(self.folder, LINK).take(holder(RUN)) as file:
            file.append([BEGAN])

    def write(self, lines: Sequence[bytes]) -> None:
        self.file.write_bytes(b"".join(line + b"\n" for line in lines))

    def resume(self, *words: str) -> Any:
        return self.drctl("resume", RUN, "--cluster", "main", *words)

    def must_be_free(self) -> None:
        with LocalRuns(self.folder, LINK).take(holder(LATER)) as file:
            file.append([BEGAN, OVER])


@pytest.fixture
def here(tmp_path: Path, called: Run) -> Here:
    return Here(tmp_path, called)


@pytest.mark.parametrize("damage", [*READABLE, *UNREADABLE], ids=lambda each: each.__name__)
def test_a_damaged_run_is_not_resumed_but_can_be_abandoned(
    here: Here, damage: Callable[[Lines], Lines]
) -> None:
    whole = damage([*died()])
    here.write(whole)
    refused = here.resume("--execute", "--yes")
    assert (refused.code, refused.stdout) == (5, "")
    assert {**READABLE, **UNREADABLE}[damage] in refused.stderr
    name = "RUN" if damage is empty else RUN
    assert f"`drctl resume {name} --abandon REASON`" in refused.stderr

    shown = here.resume("--abandon", WHY)
    assert shown.code == 0
    assert "if abandoned, these changes remain: " in shown.stderr
    assert here.file.read_bytes().splitlines() == whole, "the journal was changed"

    left = here.resume("--abandon", WHY, "--execute", "--yes", "-o", "json")
    assert left.code == 1
    outstanding = json.loads(left.stdout)["outstanding"]
    assert outstanding
    if damage in READABLE:
        assert any(each.startswith("in effect: fence producers") for each in outstanding)
        assert "may also have rolled back a change that is listed" in outstanding[-1]
        assert f"did after line {AFTER - 1} of its journal" in outstanding[-1]
        assert "kafka-acls.sh --list" in outstanding[-1]
    else:
        assert "its plan cannot be read" in outstanding[-1]
        assert "later commands ignore this run" in outstanding[-1]
    kept = [file.read_bytes().splitlines() for file in here.file.parent.glob("journal.jsonl*")]
    assert any(file[: len(whole)] == whole for file in kept), "a damaged line was lost"
    here.must_be_free()


@pytest.mark.parametrize("damage", READABLE, ids=lambda each: each.__name__)
def test_no_report_says_where_clients_are(here: Here, damage: Callable[[Lines], Lines]) -> None:
    here.write(damage([*died()]))
    known = "no cluster accepts writes"
    shown = here.resume("--abandon", WHY)
    assert "Abandon the run: its journal is damaged, so it cannot be resumed." in shown.stdout
    assert "Where applications can write: later lines of the journal are damaged." in shown.stdout
    ended = here.resume("--abandon", WHY, "--execute", "--yes")
    report = here.drctl(
        "report", RUN, "--cluster", "main", "--format", "json", "--output-file", "report.json"
    )
    assert report.code == 0
    document = json.loads((here.folder.parent.parent / "report.json").read_text())
    assert document["writes"] == {"to": "unknown", "since": None, "source_fenced": False}
    for text in (shown.stdout, ended.stdout, json.dumps(document)):
        assert known not in text


def test_a_report_shows_what_was_written_when_the_run_was_abandoned() -> None:
    """In a topic, damaged lines stay where they are; the last entries come after them."""
    damaged, at = not_json([*died()]), runs.done().data.began
    left = {"fence-producers": "in effect", run_state.AFTER_DAMAGE: "not known: the rest"}
    last = (
        entries.resumed(runs.BOB, at),
        entries.abandoned(WHY, left, at),
        entries.ended("stopped", at),
    )
    lines = [*damaged, *run_state.seal(last, run_state.newest_head(RUN, damaged))]
    verdict = run_state.verify(RUN, lines)
    state = readable_run(RUN, lines, verdict)
    run_state.take_abandonment(state, lines)
    data = report_data(state, verdict)
    assert (data.ending.message, data.writes, data.outstanding) == (WHY, Writes.UNKNOWN, left)
    assert [step.what for step in next_steps(data)] == [
        "Do not rely on this report.",
        "Check fence-producers, and undo its change by hand if that change is in the way.",
        "Find out what else the run has changed.",
        "Then make a new plan.",
    ]


@pytest.mark.parametrize("damage", [not_json, without_the_first], ids=lambda each: each.__name__)
def test_steps_that_only_later_lines_name_are_listed(
    here: Here, damage: Callable[[Lines], Lines]
) -> None:
    here.write(damage([*died()]))
    left = json.loads(here.resume("--abandon", WHY, "--execute", "--yes", "-o", "json").stdout)
    began = [each for each in left["outstanding"] if "says that it began" in each]
    assert [each for each in began if "offsets" in each]
    not_named = [each for each in left["outstanding"] if "do not name it" in each]
    assert bool(not_named) == (damage is not_json), "the plan has more steps"


def test_a_line_that_was_cut_short_is_no_damage(here: Here) -> None:
    *lines, last = died()
    here.write(lines)
    with here.file.open("ab") as file:
        file.write(last[:40])
    shown = here.resume("--abandon", WHY)
    assert (shown.code, "damaged" in shown.stderr, "not known" in shown.stderr) == (0, False, False)
    assert here.resume("--abandon", WHY, "--execute", "--yes").code == 1
    here.must_be_free()


def test_a_run_is_never_abandoned_by_accident(here: Here) -> None:
    here.write(not_json([*died()]))
    newest = here.drctl("resume", "--cluster", "main", "--abandon", WHY, "--execute", "--yes")
    assert newest.code == 5
    assert f"drctl resume {RUN} --abandon REASON" in newest.stderr
    assert here.resume("--abandon", "REASON", "--execute", "--yes").code == 2
