"""What drctl wrote to its folder, as the judge reads it."""

import json
from pathlib import Path

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
        run = tmp_path / name
        run.mkdir()
        lines = (
            {"entry": "began", "plan": {"name": plan}},
            {"entry": "done", "step": "reconcile", "facts": {"done": {"discard": done}}},
        )
        (run / "journal.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert reconciled(Runs((tmp_path,))) == {"discard": 7}
