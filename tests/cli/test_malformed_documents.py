"""Documents written by others: a declared error, never a bug. `tests/fuzz` makes many more."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from drctl.app.loss import KnownEnds, LossReader
from drctl.app.plan_files import require_plan, write_plan
from drctl.engine import run_state
from drctl.engine.run_state import read_run
from drctl.failback.facts import DAMAGED
from drctl.failback.observers.journal import observe_journal
from drctl.model.errors import DamagedJournal, DrctlError
from drctl.model.journal import JournalReader
from drctl.model.strict_json import read_json
from drctl.stores.journal_files import RunFiles
from drctl.views.journal_text import journal_document, run_lines
from drctl.views.run_reading import readable_run
from tests.fuzz.documents import ANSWERS, DOCUMENT, PLAN, RUN, Kept, Scripted
from tests.report import runs


def test_valid_connect_answers() -> None:
    """Otherwise the fuzzing would only test rejected responses."""
    known = Scripted()
    for path, ask in (
        ("/", known.reader.kafka_cluster_id),
        ("/connectors", known.reader.connectors),
        ("/connectors/a/status", lambda: known.reader.status("a")),
        ("/connectors/a/config", lambda: known.reader.config("a")),
        ("/connectors/a/offsets", lambda: known.reader.offsets("a")),
        ("/connectors?expand=status", known.reader.statuses),
        ("/connectors?expand=info", lambda: known.reader.task_count("a")),
        ("/connectors?expand=status&expand=info", known.reader.all),
    ):
        known.data = json.dumps(ANSWERS[path]).encode()
        assert ask()


@pytest.mark.parametrize(
    "text",
    [
        "NaN",
        "[Infinity]",
        "1e999",
        "9" * 5000,
        '{"a":1,"a":2}',
        "[" * 100_000,
        "[" * 65 + "]" * 65,
        '{"a":' * 300 + "1" + "}" * 300,
        b"\xff",
        "",
    ],
)
def test_text_that_is_not_json(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


def test_valid_json_stays_valid() -> None:
    document = {"a": [1, -2.5, "[[[" * 100 + '\\"{', None, True], "b": {"c": 2**63}}
    assert read_json(json.dumps(document)) == document
    assert read_json("[" * 64 + "]" * 64)


def test_one_damaged_run_does_not_hide_the_others() -> None:
    entries = [*runs.done().entries]
    odd = {**entries[0], "plan": {"steps": [[]]}}
    kept = Kept(("a", [{**entries[0], "run": "b"}]), (RUN, entries), ("c", [odd]), ("d", []))
    listed = journal_document("main", kept, None)
    assert [(each.run, each.status) for each in listed.runs] == [
        ("a", "damaged"),
        (RUN, "done"),
        ("c", "damaged"),
        ("d", "damaged"),
    ]
    assert len(list(run_lines(listed))) == 4
    observed = observe_journal(kept, "primary")
    assert [each.status for each in observed] == [DAMAGED, "done", DAMAGED, DAMAGED]
    assert all(each.outstanding for each in observed if each.status == DAMAGED)


@pytest.mark.parametrize(
    "name", ["../../etc/x", "/tmp/x", "..", "a/../../b", "a\nb", "", "a" * 200, "\x00", ".hidden"]
)
def test_a_run_id_that_is_a_path_is_refused(name: str, tmp_path: Path) -> None:
    first, *more = runs.done().entries
    entries = [{**first, "run": name}, *more]
    files = RunFiles(tmp_path / "runs")
    for recorded, asked in ((entries, RUN), (entries, name)):
        lines = run_state.seal(recorded, run_state.first_head(asked))
        with pytest.raises(DrctlError):
            readable_run(asked, lines, run_state.verify(asked, lines))
    with pytest.raises(DamagedJournal, match="run"):
        files.create(name)
    with pytest.raises(DrctlError):
        files.reopen(name, run_state.seal(entries, run_state.first_head(name)))
    assert not list(tmp_path.rglob("*"))


def test_an_empty_journal(tmp_path: Path) -> None:
    with RunFiles(tmp_path).create(RUN):
        pass
    with pytest.raises(DamagedJournal, match="is empty"):
        read_run(RunFiles(tmp_path).entries(RUN))


def test_a_written_plan_is_read(tmp_path: Path) -> None:
    write_plan({**DOCUMENT, "fingerprint": PLAN.fingerprint}, tmp_path / "plan.json")
    require_plan(PLAN, tmp_path / "plan.json")


@pytest.mark.parametrize("at", [None, 5, "yesterday", "10000-01-01T00:00:00+00:00"])
def test_malformed_runs_do_not_prevent_a_loss_estimate(at: object) -> None:
    intent = {"clusters": {"primary": {"ends": {"t-0": 7}}}}
    kept = Kept((RUN, [{"entry": "intend", "at": at, "intent": intent}]))
    into = SimpleNamespace(link=SimpleNamespace(source="primary"), ends=[])
    with pytest.raises(DamagedJournal):
        KnownEnds(cast(LossReader, into))._snapshots(cast(JournalReader, kept), RUN)
    assert into.ends == []
