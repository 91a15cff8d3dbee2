"""Documents that others write, and everything that reads them without a cluster."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from drctl.app.link_reader import Connectors
from drctl.app.plan_files import require_plan
from drctl.app.replication_progress import ConnectorPositions
from drctl.config.loading import read
from drctl.config.mirrors import mirrors
from drctl.connect.client import ConnectWriter
from drctl.connectors.applying import kept as kept_of
from drctl.connectors.diagnosis import ConnectorHealth, status_document
from drctl.engine import run_state
from drctl.engine.run_state import decoding
from drctl.failback.gap_results import read_gap as failback_gap
from drctl.failback.observers.journal import observe_journal
from drctl.gap.summing import MissingRow
from drctl.model.errors import DrctlError
from drctl.model.gap import OrderVerdict, RecordClass
from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.offsets.mirror_topics import aliases_of
from drctl.reconcile.export import MANIFEST, digest_of, line_of, record_of
from drctl.reconcile.gap_result import Exported, ExportedSet, read_gap
from drctl.reconcile.progress import RecordSet
from drctl.steps.source_offsets import kept_offsets
from drctl.stores.parquet import ParquetRecords, read_records, read_samples
from drctl.stores.temporary import TemporaryWantedRows
from drctl.views.exports import ExportFolder, exports_of, replacement_blocker, saved_record_sets
from drctl.views.journal_text import entry_lines, journal_document, run_lines
from drctl.views.run_json import ReportDocument
from drctl.views.run_lines import next_steps
from drctl.views.run_page import render
from drctl.views.run_reading import readable_run, report_data
from tests.fuzz.mutations import ODD, changed, mutated, mutated_json, mutated_yaml
from tests.report import gaps, runs

if TYPE_CHECKING:
    import pyarrow as pa

RUN = "20260305T142007Z-main"


class Kept:
    """Implements `JournalReader` for journals that are sealed again after any change."""

    def __init__(self, *by_run: tuple[str, list[Any]]) -> None:
        self._runs = {
            run: run_state.seal(entries, run_state.first_head(run)) for run, entries in by_run
        }

    def runs(self) -> tuple[str, ...]:
        return tuple(self._runs)

    def lines(self, run: str) -> tuple[bytes, ...]:
        return self._runs[run]

    def intact_lines(self, run: str) -> int:
        return run_state.verify(run, self.lines(run)).lines

    def is_abandoned(self, run: str) -> bool:
        return False

    def entries(self, run: str) -> tuple[Any, ...]:
        return run_state.entries_in(run, self.lines(run), "here")


def read_everything(entries: list[Any], page: bool, run: str = RUN) -> None:
    """Call everything that reads a journal without a cluster."""
    kept = Kept((run, entries))
    with suppress(DrctlError):
        document = journal_document("main", kept, run)
        list(entry_lines(document))
    list(run_lines(journal_document("main", kept, None)))
    observe_journal(kept, "primary")
    lines = kept.lines(run)
    verdict = run_state.verify(run, lines)
    with decoding(run):
        data = report_data(readable_run(run, lines, verdict), verdict)
        json.dumps(ReportDocument.of(data).to_json(), allow_nan=False)
        next_steps(data)
        if page:
            render(data)


def journals() -> list[list[Any]]:
    return [list(make().entries) for make in runs.EVERY.values() if make.__name__ != "vast"]


def of_journals(random: Random, known: list[list[Any]]) -> None:
    entries = random.choice(known)
    at = random.randrange(len(entries))
    odd = changed(random, entries[at])
    odd = odd if isinstance(odd, dict) else {}
    odd = {name: value for name, value in odd.items() if name not in ("seq", "prev", "sum")}
    with suppress(DrctlError):
        read_everything([*entries[:at], odd, *entries[at + 1 :]], random.random() < 0.05)


def of_gap_results(random: Random, known: list[Any]) -> None:
    text = mutated_json(random, random.choice(known))
    with suppress(DrctlError):
        read_gap(text, "here")
    with suppress(ValueError):
        document = read_json(text)
        with suppress(DrctlError):
            found = failback_gap(document, "here")
            assert found.unreplicated + found.duplicated + len(found.ends) + len(found.label)


class GapRecords:
    """The Parquet files of a gap result.

    Attributes:
        rows: what a valid file contains.
    """

    def __init__(self, folder: Path) -> None:
        from pyarrow.parquet import ParquetFile

        made = Random(0)
        rows = [
            MissingRow(
                "orders", n % 3, n, 1_700_000_000_000 + n, made.randbytes(n % 9) if n % 7 else None,
                made.randrange(1 << 40), RecordClass.UNREPLICATED, made.choice(list(OrderVerdict)),
                misplaced=n % 2 == 0, repeated=n % 3 == 0,
            )
            for n in range(60)
        ]  # fmt: skip
        ParquetRecords(folder).write(rows)
        self.folder = folder / "records"
        (self._file,) = self.folder.iterdir()
        self._valid = self._file.read_bytes()
        self.rows = list(read_records(self.folder))
        with ParquetFile(self._file) as opened:
            self._table = opened.read()
            group = opened.metadata.row_group(0)
            chunks = [group.column(n) for n in range(group.num_columns)]
        self._pages = [
            # A header of a page is shorter than 64 bytes.
            (found.dictionary_page_offset + 64, found.data_page_offset)
            for found, name in zip(chunks, self._table.column_names, strict=True)
            if name in ("offset", "timestamp_ms", "size")
        ]

    def write_damaged_page(self, random: Random) -> None:
        """Write the file with a byte of a page changed: its checksum detects that."""
        data = bytearray(self._valid)
        at = random.randrange(*random.choice(self._pages))
        data[at] ^= random.randrange(1, 256)
        self._file.write_bytes(data)

    def write_damaged_file(self, random: Random) -> None:
        """Write the file with any bytes changed."""
        self._file.write_bytes(mutated(random, [self._valid]))

    def write_other_columns(self, random: Random) -> None:
        """Write a valid Parquet file with columns missing, of other types or with nulls."""
        import pyarrow.parquet as pq

        table = self._table
        for name in random.sample(table.column_names, random.choice((1, 1, 2))):
            at = table.column_names.index(name)
            table = table.remove_column(at)
            if random.random() < 0.8:
                table = table.add_column(at, name, self._other(random))
        pq.write_table(table, self._file)

    def _other(self, random: Random) -> "pa.Array":
        import pyarrow as pa

        values: list[Any] = [*(random.choice(ODD) for _ in range(3)), b"k", 5, "safe"]
        one = random.choice([each for each in values if not isinstance(each, list | dict)])
        column = [one] * self._table.num_rows
        if random.random() < 0.3:
            column[random.randrange(len(column))] = None
        with suppress(pa.ArrowException, OverflowError, UnicodeEncodeError):
            return pa.array(column)
        return pa.nulls(len(column), random.choice((pa.int64(), pa.string(), pa.bool_())))


def of_gap_records(random: Random, known: GapRecords) -> None:
    kind = random.randrange(4)
    if kind == 0:
        known.write_damaged_page(random)
    elif kind == 1:
        known.write_other_columns(random)
    else:
        known.write_damaged_file(random)
    with suppress(DrctlError):
        rows = list(read_records(known.folder))
        assert kind or rows == known.rows
        TemporaryWantedRows(rows).tallies()
    with suppress(DrctlError):
        for each in read_samples(known.folder, 9):
            assert each.offset + each.timestamp_ms + len(each.key or b"") + len(each.place.topic)


EXPORTED = [
    Exported(TopicPartition("orders", 3), "primary.orders", row, OrderVerdict.SAFE)
    for row in ((7, 1_700_000_000_000, b"k", None, ()), (9, -1, None, b"v", ((b"h\xff", b"1"),)))
]
PARTS = [
    ExportedSet(RecordSet(EXPORTED[0].place, OrderVerdict.SAFE), -1, digest_of((7, 9)), 2),
    ExportedSet(RecordSet(EXPORTED[0].place, OrderVerdict.CONFLICTING), 4, digest_of(()), 0, 3),
]


class ExportManifests:
    """An export in a state directory."""

    about: Mapping[str, Any] = {"result": "r1", "classes": ["unreplicated"]}

    def __init__(self, folder: Path) -> None:
        self.state = folder
        writer = ExportFolder(exports_of(folder, "r1"), dict(self.about))
        writer.begin(PARTS)
        for each in EXPORTED:
            writer.add(each)
        self.folder = Path(writer.finish(PARTS))
        self.file = self.folder / MANIFEST
        self.valid = json.loads(self.file.read_text())


def of_export_manifests(random: Random, known: ExportManifests) -> None:
    """No export counts for more than its files contain."""
    known.file.write_text(mutated_json(random, known.valid), "utf-8", "surrogatepass")
    for record_set, found in saved_record_sets(known.state, "r1").items():
        assert all(each.record_set == record_set for each in found)
        assert sum(each.records for each in found) in (0, len(EXPORTED))
    assert isinstance(replacement_blocker(known.folder, known.about, PARTS), str)


def of_exported_records(random: Random, known: list[bytes]) -> None:
    line = random.choice(known)
    text = mutated_json(random, json.loads(line)).encode("utf-8", "surrogatepass")
    given = random.choice((text, mutated(random, known)))
    with suppress(ValueError):
        assert line_of(record_of(given)) == given


PLAN = runs.planned()
DOCUMENT = {
    "schema": "drctl/plan/1",
    "fingerprint": "another",
    **PLAN.to_json(),
    "overrides": [{"precheck": "lag", "reason": "known"}],
}


def of_plans(random: Random, file: Path) -> None:
    file.write_text(mutated_json(random, DOCUMENT), "utf-8", "replace")
    with suppress(DrctlError):
        require_plan(PLAN, file)


def of_yaml(random: Random, known: list[str]) -> None:
    text = mutated_yaml(random, random.choice(known))
    message = "nothing is wrong"
    try:
        read(text, Path("drctl.yaml"))
    except DrctlError as error:
        message = error.message
    assert message.strip()


STATUS = {
    "name": "a",
    "connector": {"state": "RUNNING", "worker_id": "w:1"},
    "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "x\nCaused by: y"}],
    "type": "source",
}
INFO = {"name": "a", "config": {"name": "a", "tasks.max": "1"}, "tasks": [{}], "type": "source"}
ANSWERS: dict[str, Any] = {
    "/": {"version": "4.3.1", "commit": "0", "kafka_cluster_id": "id"},
    "/connectors": ["a", "b"],
    "/connectors/a/status": STATUS,
    "/connectors/a/config": INFO["config"],
    "/connectors/a/offsets": {"offsets": [{"partition": {"topic": "t"}, "offset": {"offset": 1}}]},
    "/connectors?expand=status": {"a": {"status": STATUS}},
    "/connectors?expand=info": {"a": {"info": INFO}},
    "/connectors?expand=status&expand=info": {"a": {"status": STATUS, "info": INFO}},
}


class Scripted:
    """A client without a network, with a scripted response."""

    def __init__(self) -> None:
        self.data, self.status = b"", 200
        self.reader = ConnectWriter("http://127.0.0.1:1")
        self.reader._answer = self._answer  # type: ignore[method-assign]

    def _answer(self, *_: object) -> Any:
        worker = self.reader._workers[0][0]
        return SimpleNamespace(worker=worker, status=self.status, data=self.data, elsewhere="")

    def all(self) -> Iterator[Callable[[], object]]:
        """Call every method of the client."""
        reader, connectors = self.reader, Connectors(self.reader)
        yield reader.kafka_cluster_id
        yield connectors.names
        yield lambda: connectors.state("a")
        yield lambda: connectors.tasks("a")
        yield lambda: aliases_of(reader.config("a"))
        yield lambda: mirrors({"a": reader.config("a")})
        yield lambda: ConnectorPositions(reader, "a", next_offset=False).positions(["t"])
        yield lambda: kept_offsets("a", connectors.offsets("a"))
        yield reader.statuses
        yield lambda: reader.task_count("a")
        yield lambda: status_document([ConnectorHealth("w", tuple(reader.all().values()))])
        yield lambda: [kept_of(each, reader.positions("a")) for each in reader.all().values()]
        yield lambda: reader.put_config("a", {})
        yield lambda: reader.stop("a")
        yield lambda: reader.put_positions("a", [])


def of_answers(random: Random, known: Scripted) -> None:
    text = mutated_json(random, random.choice(list(ANSWERS.values())))
    known.data = text.encode("utf-8", "surrogatepass")
    known.status = random.choice((200, 200, 200, 202, 302, 404, 400, 502))
    for ask in known.all():
        with suppress(DrctlError):
            json.dumps(ask(), default=str)


GAPS = [make().to_json() for make in (gaps.hostile, gaps.tail_lost, gaps.not_complete)]


YAML = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "config" / "cases").glob("*.yaml"))
    if path.stem != "not-utf8"
]
