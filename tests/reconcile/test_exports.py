"""Exported means that files on this host contain it; no other export counts."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drctl.app import reconcile
from drctl.model.errors import Refused, Unknown
from drctl.model.gap import OrderVerdict
from drctl.model.topology import TopicPartition
from drctl.reconcile.executing import Limits
from drctl.reconcile.export import MANIFEST, digest_of, record_of
from drctl.reconcile.gap_result import Exported, ExportedSet
from drctl.reconcile.policy import Action, Policies
from drctl.reconcile.prechecks import Precheck
from drctl.reconcile.progress import RecordSet
from drctl.views.exports import ExportFolder, exports_of, results_exported, saved_record_sets
from tests.reconcile.world import FakeCopier, T, World

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
SAFE, CONFLICTING = OrderVerdict.SAFE, OrderVerdict.CONFLICTING
ABOUT = {"result": "r1", "classes": ["unreplicated"]}
EXPORT = Policies(everywhere=Action.EXPORT, conflicting=Action.EXPORT)


def part(
    place: TopicPartition, *offsets: int, order: OrderVerdict = SAFE, after: int = -1
) -> ExportedSet:
    return ExportedSet(RecordSet(place, order), after, digest_of(offsets), len(offsets))


def export(
    folder: Path,
    wanted: Mapping[ExportedSet, tuple[int, ...]],
    about: Mapping[str, Any] = ABOUT,
    *,
    beside: bool = False,
) -> Path:
    """Write an export of these offsets; offsets that are not in `about` were gone."""
    writer = ExportFolder(folder, dict(about), beside=beside)
    writer.begin([*wanted])
    for each, offsets in wanted.items():
        for offset in offsets:
            row = offset, 5, b"k", b"v%d" % offset, ()
            writer.add(
                Exported(
                    each.record_set.place, each.record_set.place.topic, row, each.record_set.order
                )
            )
    counts = ((each, len(offsets)) for each, offsets in wanted.items())
    return Path(writer.finish([e._replace(records=n, gone=e.records - n) for e, n in counts]))


def offsets_in(file: Path) -> list[int]:
    return [record_of(line).row[0] for line in file.read_bytes().splitlines()]


def everything(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in folder.rglob("*")
        if p.is_file()
    }


def found(state: Path, offsets: Mapping[RecordSet, tuple[int, ...]], through: int = -1) -> Any:
    """Return a run that must export these records of result r1."""

    def after(place: TopicPartition, out_of_order: Mapping[OrderVerdict, int]) -> list[int]:
        ((order, at),) = out_of_order.items()
        return [n for n in offsets[RecordSet(place, order)] if n > at]

    lines = tuple(
        SimpleNamespace(
            record_set=record_set,
            action=Action.EXPORT,
            due=SimpleNamespace(records=sum(n > through for n in all_of_it)),
            through=through,
            done=(),
        )
        for record_set, all_of_it in offsets.items()
    )
    return SimpleNamespace(
        config=SimpleNamespace(state_dir=state),
        gap=SimpleNamespace(id="r1"),
        plan=SimpleNamespace(lines=lines),
        rows=SimpleNamespace(offsets_after=after),
    )


def due_and_done(
    state: Path, offsets: Mapping[RecordSet, tuple[int, ...]], through: int = -1
) -> Any:
    """Return the number of due and of done records."""
    asked = found(state, offsets, through)
    saved = reconcile._saved(asked)
    return sum(reconcile._due(line, saved) for line in asked.plan.lines), dict(
        reconcile._done(asked, saved)
    )


def test_only_records_in_an_export_count_as_exported(tmp_path: Path) -> None:
    """The failback continues by emptying the cluster with the only copy."""
    of_orders, of_audit = part(ORDERS, 3, 4), part(AUDIT, 7)
    conflicting = part(ORDERS, 5, order=CONFLICTING)
    wanted = {of_orders.record_set: (3, 4), of_audit.record_set: (7,), conflicting.record_set: (5,)}
    assert due_and_done(tmp_path, wanted) == (4, {})
    export(exports_of(tmp_path, "r1"), {of_orders: (3, 4)})
    assert due_and_done(tmp_path, wanted) == (2, {"export": 2})
    export(exports_of(tmp_path, "r1"), {conflicting: (5,)}, beside=True)
    assert due_and_done(tmp_path, wanted) == (1, {"export": 3})
    assert results_exported(tmp_path) == {"r1"}


def test_an_export_counts_while_its_files_are_intact(tmp_path: Path) -> None:
    wanted = part(ORDERS, 3, 4)
    folder = export(exports_of(tmp_path, "r1"), {wanted: (3, 4)})
    file, record_set = folder / "orders-0.jsonl", {wanted.record_set: (3, 4)}
    whole = file.read_bytes()
    assert due_and_done(tmp_path, record_set) == (0, {"export": 2})
    for damaged in (whole[:-3], whole.splitlines(keepends=True)[0], b"", None):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        assert due_and_done(tmp_path, record_set) == (2, {}), damaged
    file.write_bytes(whole)
    manifest = json.loads((folder / MANIFEST).read_text())
    for without in ("record_sets", "files", "format", "result"):
        (folder / MANIFEST).write_text(
            json.dumps({k: v for k, v in manifest.items() if k != without})
        )
        assert due_and_done(tmp_path, record_set) == (2, {}), without
    (
        folder / MANIFEST
    ).unlink()  # the manifest is written last: without it the export is incomplete
    assert due_and_done(tmp_path, record_set) == (2, {})


@pytest.mark.parametrize(
    ("within", "name", "value"),
    [
        ("record_sets", "records", 2.0),
        ("record_sets", "after", "-1"),
        ("record_sets", "gone", True),
        ("record_sets", "records", -2),
        ("files", "file", 5),
        ("files", "file", "a\0b"),
        ("files", "records", 2.0),
        ("files", "topic", ["orders"]),
        (None, "classes", [5]),
        (None, "result", ["r1"]),
    ],
)
def test_a_manifest_with_a_value_of_another_type_does_not_count(
    tmp_path: Path, within: str | None, name: str, value: object
) -> None:
    wanted = {part(ORDERS, 3, 4): (3, 4)}
    out = export(exports_of(tmp_path, "r1"), wanted)
    manifest = json.loads((out / MANIFEST).read_text())
    (manifest[within][0] if within else manifest)[name] = value
    (out / MANIFEST).write_text(json.dumps(manifest))
    assert not saved_record_sets(tmp_path, "r1")
    if within != "files":
        assert export(out, wanted, beside=True).name == "r1-2"


def test_a_manifest_with_a_wrong_number_of_records_does_not_count(tmp_path: Path) -> None:
    wanted = part(ORDERS, 3, 4)
    manifest = export(exports_of(tmp_path, "r1"), {wanted: (3, 4)}) / MANIFEST
    changed = json.loads(manifest.read_text())
    for each in ("files", "record_sets"):
        assert changed[each][0]["records"] == 2
        changed[each][0]["records"] = 3
    manifest.write_text(json.dumps(changed))
    assert due_and_done(tmp_path, {wanted.record_set: (3, 4)}) == (2, {})


def test_a_line_that_no_export_contains_is_refused(tmp_path: Path) -> None:
    out = export(tmp_path, {part(ORDERS, 3): (3,)})
    line = (out / "orders-0.jsonl").read_bytes().strip()
    for changed in (b'"offset":"3"', b'"offset":3.5', b'"offset":true', b'"offset":-0'):
        with pytest.raises(ValueError, match="not in the form that drctl writes"):
            record_of(line.replace(b'"offset":3', changed))
    with pytest.raises(ValueError, match="not an exported record"):
        record_of(line.replace(b'"headers":[]', b'"headers":[[5,null]]'))


def test_an_export_of_other_records_does_not_count(tmp_path: Path) -> None:
    """A result recreated on another host has the name of the first one."""
    wanted = part(ORDERS, 3, 4)
    export(exports_of(tmp_path, "r1"), {wanted: (3, 4)})
    for others in ((3, 5), (3, 4, 5), (4,)):
        assert due_and_done(tmp_path, {wanted.record_set: others}) == (len(others), {})
    superseded = {**ABOUT, "classes": ["superseded", "expired"]}
    export(exports_of(tmp_path / "other", "r1"), {wanted: (3, 4)}, superseded)
    assert not saved_record_sets(tmp_path / "other", "r1")


def test_an_export_counts_only_from_before_another_action(tmp_path: Path) -> None:
    record_set = RecordSet(ORDERS, SAFE)
    export(exports_of(tmp_path, "r1"), {part(ORDERS, 5, 6, after=4): (5, 6)})
    assert due_and_done(tmp_path, {record_set: (3, 4, 5, 6)}, through=4) == (0, {"export": 2})
    assert due_and_done(tmp_path, {record_set: (3, 4, 5, 6)}, through=5) == (0, {"export": 1})
    assert due_and_done(tmp_path, {record_set: (3, 4, 5, 6)}) == (4, {})


def test_deleted_records_are_not_reported_as_exported(tmp_path: Path) -> None:
    wanted = part(ORDERS, 3, 4, 5)
    export(exports_of(tmp_path, "r1"), {wanted: (4, 5)})
    totals = {"export": 2, "deleted before they were exported": 1}
    assert due_and_done(tmp_path, {wanted.record_set: (3, 4, 5)}) == (0, totals)


@pytest.mark.parametrize(
    ("later", "about", "why"),
    [
        pytest.param({part(AUDIT, 7): (7,)}, ABOUT, "safe records of orders-0", id="of-others"),
        pytest.param(
            {part(ORDERS, 4, after=3): (4,)}, ABOUT, "safe records of orders-0", id="of-the-rest"
        ),
        pytest.param(
            {part(ORDERS, 3, 4): (4,)}, ABOUT, "it holds 2 safe records of orders-0; ", id="fewer"
        ),
        pytest.param({part(ORDERS, 3, 4): (3, 4)}, {**ABOUT, "result": "r2"}, "r1", id="result"),
        pytest.param(
            {part(ORDERS, 3, 4): (3, 4)}, {**ABOUT, "classes": ["expired"]}, "r1", id="classes"
        ),
    ],
)
def test_an_export_never_counts_for_another(
    tmp_path: Path, later: Mapping[ExportedSet, tuple[int, ...]], about: Mapping[str, Any], why: str
) -> None:
    out = export(tmp_path / "out", {part(ORDERS, 3, 4): (3, 4)})
    before = everything(out)
    with pytest.raises(Refused, match=why):
        export(out, later, about)
    left = everything(out)
    assert {name: left.get(name) for name in before} == before
    second = export(out, later, about, beside=True)
    assert (second, everything(second).keys() >= {MANIFEST}) == (tmp_path / "out-2", True)
    left = everything(out)
    assert {name: left.get(name) for name in before} == before


def test_an_export_without_a_record_list_is_kept(tmp_path: Path) -> None:
    out = export(tmp_path / "out", {part(ORDERS, 3, 4): (3, 4)})
    manifest = json.loads((out / MANIFEST).read_text())
    del manifest["record_sets"]  # as earlier versions wrote it
    (out / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(Refused, match="does not list its records"):
        export(out, {part(ORDERS, 3, 4): (3, 4)})
    assert export(out, {part(ORDERS, 3, 4): (3, 4)}, beside=True) == tmp_path / "out-2"
    assert offsets_in(out / "orders-0.jsonl") == [3, 4]


def test_an_export_can_be_replaced_by_a_larger_one(tmp_path: Path) -> None:
    out = exports_of(tmp_path, "r1")
    both = {part(ORDERS, 3, 4): (3, 4), part(AUDIT, 7): (7,)}
    for again in ({part(ORDERS, 3, 4): (3, 4)}, both, both):
        assert export(out, again, beside=True) == out
    assert offsets_in(out / "orders-0.jsonl") == [3, 4]
    assert offsets_in(out / "audit-0.jsonl") == [7]
    assert not out.with_name("r1-2").exists()


def test_other_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(Refused, match=r"letter\.txt"):
        ExportFolder(tmp_path, {}).begin([part(ORDERS, 3)])


def test_an_export_counts_only_once_complete(tmp_path: Path) -> None:
    writer = ExportFolder(tmp_path / "out", dict(ABOUT))
    writer.begin([part(ORDERS, 3, 4)])
    writer.add(Exported(ORDERS, "orders", (3, 5, None, None, ()), SAFE))
    with pytest.raises(Unknown, match="orders-0: 1 record was written"):
        writer.finish([part(ORDERS, 3, 4)])
    assert not (tmp_path / "out" / MANIFEST).exists()


def test_a_run_reports_the_records_of_its_export() -> None:
    place = TopicPartition(T, 0)
    rows = [(offset, 5, b"k", b"v", ()) for offset in range(4)]
    verdicts = {(place, 0): SAFE, (place, 1): CONFLICTING, (place, 2): SAFE, (place, 3): SAFE}
    world = World(
        {place: rows[1:]},
        verdicts,
        {place: rows},
        log_start={place: 1},
        overrides={Precheck.SOURCE_MOVED: "they are gone"},
    )
    world.execution(EXPORT, FakeCopier(world.target, 0), Limits()).run()
    assert world.exporter.parts == [
        ExportedSet(RecordSet(place, SAFE), -1, digest_of((0, 2, 3)), 2, 1),
        ExportedSet(RecordSet(place, CONFLICTING), -1, digest_of((1,)), 1, 0),
    ]
