"""What drctl wrote to its folder, as the judge reads it."""

import json
from pathlib import Path

import pytest

from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.export import digest_of
from drctl.reconcile.gap_result import Exported, ExportedSet
from drctl.reconcile.progress import RecordSet
from drctl.views.exports import ExportFolder
from tests.soak.evidence import exported, reconciled
from tests.soak.fault_injection import Runs


def test_exported_values_come_from_complete_exports(tmp_path: Path) -> None:
    for name, value in (("one", b"w0-1"), ("two", b"w0-2"), ("half", b"w0-3")):
        writer = ExportFolder(tmp_path / "reconcile" / "exports" / name, {})
        place = TopicPartition("flights", 0)
        record_set = RecordSet(place, OrderVerdict.SAFE)
        parts = [ExportedSet(record_set, -1, digest_of([0]), 1)]
        writer.begin(parts)
        writer.add(Exported(place, "flights", (0, 5, None, value, ()), OrderVerdict.SAFE))
        writer.finish(parts)
    (tmp_path / "reconcile" / "exports" / "half" / "manifest.json").unlink()
    assert exported(Runs((tmp_path / "runs",))) == {"w0-1", "w0-2"}


def test_actions_on_records_come_from_the_last_failback(tmp_path: Path) -> None:
    for name, plan, done in (("1", "failback", 3), ("2", "failback", 7), ("3", "failover", 9)):
        _journal(tmp_path / name, plan, "reconcile", "g1", {"discard": done})
    assert reconciled(Runs((tmp_path,))) == {"copy": 0, "discard": 7}


@pytest.mark.parametrize(
    ("result", "done", "copied"),
    [
        ("g1", {"copy": 6, "quarantine": 2}, 6),  # the failback used the same result of drctl gap
        ("g2", {"quarantine": 2}, 6),  # a later one no longer lists what was copied
        ("g2", {"copy": 1, "quarantine": 2}, 7),
    ],
)
def test_copies_are_counted_once(
    tmp_path: Path, result: str, done: dict[str, int], copied: int
) -> None:
    first = {"copy": 6, "quarantine": 2}
    _journal(tmp_path / "1", "reconcile", "reconcile-result", "g1", first)
    _journal(tmp_path / "2", "failback", "reconcile", result, done)
    assert reconciled(Runs((tmp_path,))) == {"copy": copied, "quarantine": 2}


def _journal(run: Path, plan: str, step: str, result: str, done: dict[str, int]) -> None:
    run.mkdir()
    lines = (
        {"entry": "began", "plan": {"name": plan}},
        {"entry": "intend", "step": step, "intent": {"result": result}},
        {"entry": "done", "step": step, "facts": {"done": done}},
    )
    (run / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
