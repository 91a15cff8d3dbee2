"""Everything that decodes what others wrote: how to make one input of it, and what must hold.

A target raises if an exception other than drctl's own escapes, or if a value is misread where a
checksum or a round trip can tell.
"""

import json
import math
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import dns.flags
import dns.message
import dns.query
import dns.rrset

from drctl.connectors.applying import Export, kept, read_export
from drctl.drill.result import read as read_drills
from drctl.engine import run_state
from drctl.formats.primitives import Cursor, Undecodable
from drctl.formats.properties import read_properties
from drctl.gap.comparison import Side
from drctl.gap.event_duplicates import event_of
from drctl.gap.ledger import Book, Cell, KnownLog, LogKey, Row, Rules
from drctl.kafka import ledger_topic
from drctl.kafka.connection import Connection
from drctl.kafka.journal_log import LinkLog
from drctl.kafka.oauth import read_token
from drctl.model.document import as_json
from drctl.model.errors import DrctlError
from drctl.model.gap import OrderVerdict
from drctl.model.replication import Connector, Position
from drctl.model.strict_json import read_json
from drctl.model.topology import TopicPartition
from drctl.offsets.documents import read_document
from drctl.reconcile import progress
from drctl.reconcile.export import line_of
from drctl.reconcile.policy import Action
from drctl.runbook.linting import lint
from drctl.runbook.when import InvalidCondition, parse
from drctl.stores.ledger import DatabaseLedger
from tests.drill.test_history import FIRST, SECOND
from tests.endpoints.configured_endpoints import endpoint
from tests.fuzz import documents
from tests.fuzz.mutations import mangled, mutated, mutated_json, mutated_yaml
from tests.offsets.test_snapshot import ROW, document, taken, translation
from tests.wire.formats import FORMATS, Format
from tests.wire.test_broker_requests import READ, raw

One = Callable[[Random], None]
"""Makes one input and has it decoded."""

_SEEDS = 20
_REPOSITORY = Path(__file__).parents[2]


def _format(each: Format, _folder: Path) -> One:
    valid = each.made(_SEEDS)

    def one(random: Random) -> None:
        data = mutated(random, valid)
        if each.refusal(data) is None:
            value = each.decode(data)
            again = each.encode(value)
            assert again == data if each.canonical else each.decode(again) == value

    return one


def _responses(_folder: Path) -> One:
    known: dict[Any, list[bytes]] = {}
    for read, answer, _ in READ:
        known.setdefault(read, []).append(raw(answer))
    reads = list(known)

    def one(random: Random) -> None:
        read = random.choice(reads)
        with suppress(Undecodable):
            read(Cursor("test", mutated(random, known[read])))

    return one


def _journal_lines(_folder: Path) -> One:
    """Whatever is changed in a journal is detected; only lines missing at the end are not."""
    own, foreign = map(run_state.first_head, (documents.RUN, "another"))
    sealed = [run_state.seal(entries, own) for entries in documents.journals()]
    others = [line for entries in documents.journals() for line in run_state.seal(entries, foreign)]

    def one(random: Random) -> None:
        lines = random.choice(sealed)
        found = list(lines)
        at = random.randrange(len(lines))
        match random.randrange(4):
            case 0:
                del found[at]
            case 1:
                found.insert(at, random.choice((*lines, *others)))
            case _:
                found[at] = mutated(random, [found[at]])
        verdict = run_state.verify(documents.RUN, found)
        assert tuple(found[: verdict.lines]) == lines[: verdict.lines]
        with suppress(DrctlError):
            run_state.entries_in(documents.RUN, found, "here")
            assert tuple(found) == lines[: len(found)]

    return one


def _journal_topic(_folder: Path) -> One:
    """The lines of a run are those that were written, or damage is detected."""
    (journal,) = (each for each in FORMATS if each.name == "journal-records")
    valid = journal.made(100)

    def one(random: Random) -> None:
        log = LinkLog("main", random.choice((b"", b"key")))
        with suppress(Undecodable):
            log.take((b"main", mutated(random, valid)) for _ in range(random.randrange(1, 8)))
        for run in log.runs:
            run_state.verify(run, log.lines(run))
            log.ended(run)
            log.unsigned(run)
            log.blocker(run)

    return one


_ROWS = tuple(Row(n, 1 + n, 2**64 - 1 - n, n, n, n) for n in range(3))
_BOOK = Book(7, 64, 20, 5, {"orders": Rules("primary.orders", True, 65536)})
_LOG = KnownLog("id", 3, 41, 2, {0: Cell(0, 0, 9, 1_700_000_000_000, _ROWS)})


def _ledger(_folder: Path) -> One:
    fingerprint, key = "f" * 8, LogKey(Side.SOURCE, "orders", 3)
    book, log = _BOOK, _LOG
    whole = {
        **ledger_topic.header_of(fingerprint, book),
        **ledger_topic.rules_of(fingerprint, 5, book.rules),
        **ledger_topic.log_of(fingerprint, 5, key, log),
    }

    def one(random: Random) -> None:
        values = dict(whole)
        for _ in range(random.choice((1, 1, 2))):
            name = random.choice(list(whole))
            value = mutated(random, [values.pop(name, whole[name])])
            values[mutated(random, [name]) if random.random() < 0.3 else name] = value
        own = {k: v for k, v in values.items() if k.startswith(ledger_topic.prefix_of(fingerprint))}
        reader = ledger_topic.TopicLedgerReader(_NoConnection("secondary", {}), "__ledger")
        topic = SimpleNamespace(values=own, catch_up=lambda: True)
        reader._topics[fingerprint] = cast(Any, topic)
        with suppress(DrctlError, _Waits):
            reader.book(fingerprint)
            reader.logs(fingerprint, ["orders"])

    return one


def _ledger_file(folder: Path) -> One:
    """A ledger in a file, damaged or with values of other types in its tables."""
    file = folder / "ledger.db"
    ledger = DatabaseLedger(file)
    ledger.begin("f", _BOOK)
    key = LogKey(Side.SOURCE, "orders", 3)
    assert ledger.keep("f", _BOOK.version, _BOOK.rules, (), {key: _LOG})
    valid = file.read_bytes()
    columns = {
        "book": ("salt", "buckets"),
        "rules": ("target_topic", "bucket_ms"),
        "log": ("side", "partition", "leader_epoch"),
        "cell": ("first", "side", "digests"),
    }

    def one(random: Random) -> None:
        for each in folder.iterdir():
            each.unlink()
        file.write_bytes(valid if (typed := random.random() < 0.5) else mutated(random, [valid]))
        if typed:
            table = random.choice(list(columns))
            value = random.choice((None, -1, 1.5, "x", b"\xff" * 7, 1 << 62, b""))
            with closing(sqlite3.connect(file)) as database, database:
                database.execute("PRAGMA synchronous = OFF")
                column = random.choice(columns[table])
                database.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (value,))
        with suppress(DrctlError):
            ledger.book("f")
            ledger.logs("f", ["orders"])

    return one


def _tokens(_folder: Path) -> One:
    known = {"access_token": "a.b.c", "token_type": "Bearer", "expires_in": 3600}

    def one(random: Random) -> None:
        text = mutated_json(random, known)
        with suppress(ValueError, KeyError, TypeError):  # as reported by their only caller
            token, life_s = read_token(text.encode("utf-8", "surrogatepass"))
            assert token == read_json(text)["access_token"]
            assert 0 <= life_s < math.inf

    return one


class _Waits(Exception):
    """The reader waits for the rest of a transaction."""


class _NoConnection(Connection):
    def wait(self, seconds: float) -> None:
        raise _Waits


def _progress(_folder: Path) -> One:
    place = progress.RecordSet(TopicPartition("orders", 3), OrderVerdict.SAFE)
    segments = (progress.Segment(Action.COPY, 5, 3, 30, 1, "t", 7),)
    record = progress.encode(progress.Key("g", "c", place), progress.Progress("s", "t", segments))

    def one(random: Random) -> None:
        key, value = record
        if random.random() < 0.5:
            key = mutated_json(random, json.loads(key)).encode("utf-8", "surrogatepass")
        if random.random() < 0.7:
            value = mutated_json(random, json.loads(value)).encode("utf-8", "surrogatepass")
        with suppress(DrctlError):
            found = progress.decode([(key, value)])
            again = progress.decode([progress.encode(*each) for each in found.items()])
            assert again == found
            (known,) = found.items()
            for old, new in zip((key, value), progress.encode(*known), strict=True):
                assert _same(json.loads(old), json.loads(new)), (old, new)

    return one


def _same(given: Any, read: Any) -> bool:
    """Whether a value was read as it was given: no number rounded, no text for a number."""
    if isinstance(read, dict):
        # A missing text is empty: it was added in a later version.
        return isinstance(given, dict) and all(
            _same(given[k], v) if k in given else v == "" for k, v in read.items()
        )
    if isinstance(read, list):
        return len(given) >= len(read) and all(map(_same, given, read))
    return type(given) is type(read) and given == read


def _file(text_of: Callable[[Random], str], read: Callable[[Path], object], name: str) -> Any:
    """Return a target that reads a file."""

    def begin(folder: Path) -> One:
        file = folder / name

        def one(random: Random) -> None:
            file.write_text(text_of(random), "utf-8", "surrogatepass")
            with suppress(DrctlError):
                read(file)

        return one

    return begin


def _offsets(random: Random) -> str:
    snapshot, rows = document(taken()), translation(ROW, {**ROW, "partition": 2}, to="secondary")
    return mutated_json(random, random.choice((snapshot, rows)))


RUNBOOKS = [
    file.read_text(encoding="utf-8") for file in sorted(_REPOSITORY.glob("runbooks/*.yaml"))
]
CONDITIONS = ["not mode == 'planned' and (a != \"b\" or size > 3)", "link.active == true or not x"]


def _runbook(random: Random) -> str:
    return mutated_yaml(random, random.choice(RUNBOOKS))


def _lint(file: Path) -> None:
    found = lint(file)
    assert all(isinstance(each, str) for each in found.lines)


def _conditions(_folder: Path) -> One:
    def one(random: Random) -> None:
        text = mangled(random, random.choice(CONDITIONS), (*"()'\"<>=!", "not ", "and ", "(" * 300))
        with suppress(InvalidCondition):
            parse(text * random.choice((1, 1, 1, 200)))

    return one


def _exports(_folder: Path) -> One:
    one_kept = kept(
        Connector("a", "source", {"connector.class": "Postgres"}, "RUNNING"),
        [Position({"server": "shop"}, {"lsn": 17})],
    )
    known = as_json(Export("old:8083", "id", "2026-01-02T03:04:05+00:00", (one_kept,)))

    def one(random: Random) -> None:
        with suppress(ValueError):
            data = read_json(mutated_json(random, known))
            with suppress(DrctlError):
                found = as_json(read_export(data, "f"))
                assert _same(data, found), (data, found)

    return one


def _drills(_folder: Path) -> One:
    lines = [FIRST.line(), SECOND.line()]

    def one(random: Random) -> None:
        line = mutated_json(random, json.loads(random.choice(lines)))
        given = random.choice((line.encode("utf-8", "surrogatepass"), mutated(random, lines)))
        found, damaged = read_drills([SECOND.line(), given])
        assert SECOND.drill in [each.drill for each in found]
        assert len(found) + damaged in (1, 2)
        for each in found:
            each.line()

    return one


EVENT = {
    "schema": None,
    "payload": {
        "op": "u", "before": None, "after": {"id": 1, "x": 1.50}, "ts_ms": 5,
        "source": {"connector": "mongodb", "ord": 3, "sec": 17, "lsid": {"id": "a"}, "db": "d"},
    },
}  # fmt: skip


def _events(_folder: Path) -> One:
    def one(random: Random) -> None:
        value = mutated_json(random, EVENT).encode("utf-8", "surrogatepass")
        event_of(b"k", mutated(random, [value]) if random.random() < 0.5 else value)

    return one


PROPERTIES = "# c\nbootstrap.servers = a:1,\\\n  b:2\nsasl.jaas.config=x \\u0041 \\t;\nkey:value\n"


def _properties(_folder: Path) -> One:
    def one(random: Random) -> None:
        text = mangled(random, PROPERTIES, ("\\", "\\u", "\\u00", "=", "\n", "\x00", "\u2028", " "))
        assert all(isinstance(each, str) for each in read_properties(text).values())

    return one


STATES = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_port
3 kafka 1 p1 127.0.0.1 2 0 9092
3 kafka 2 s1 127.0.0.1 0 1 9093
"""
STATISTICS = "# pxname,svname,qcur,scur,\nkafka,p1,0,1,\nkafka,s1,0,0,\n"


def _haproxy(folder: Path) -> One:
    settings = {
        "kind": "haproxy", "socket": "admin", "backend": "kafka",
        "servers": {"primary": ["p1"], "secondary": ["s1"]},
    }  # fmt: skip
    reader = endpoint(settings, folder).reader
    api = cast(Any, reader)._api
    put = (" ", "\n", ",", '"', "\x00", "\r", "-1", "9" * 5_000, "# ", ";", "\n\n", "kafka", "1_0")

    def one(random: Random) -> None:
        texts = [
            mangled(random, text, put) if random.random() < 0.6 else text
            for text in (STATES, STATISTICS)
        ]
        answer = "".join(f"{each}\n" for each in texts)
        api._exchanged = lambda *_: answer
        with suppress(DrctlError):
            json.dumps(reader.observe().evidence)

    api._connected = _Nothing
    return one


class _Nothing:
    """A connection that does nothing."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _dns(folder: Path) -> One:
    """The records of a zone, in responses that drctl accepts as such."""
    settings = {
        "kind": "dns", "server": "127.0.0.1", "zone": "example.", "record": "kafka.example.",
        "clusters": {"primary": ["10.0.0.1"], "secondary": ["10.0.0.2", "10.0.0.3"]},
    }  # fmt: skip
    reader = endpoint(settings, folder).reader
    rows = {
        "SOA": dns.rrset.from_text("example.", 60, "IN", "SOA", "ns. root. 7 60 60 60 5"),
        "A": dns.rrset.from_text("kafka.example.", 5, "IN", "A", "10.0.0.2", "10.0.0.3"),
        "CNAME": dns.rrset.from_text("kafka.example.", 5, "IN", "CNAME", "elsewhere.example."),
    }

    def one(random: Random) -> None:
        def tcp(query: Any, *_: object, **__: object) -> dns.message.Message:
            response = dns.message.make_response(query)
            response.flags |= dns.flags.AA
            kind = "SOA" if "SOA" in query.question[0].to_text() else random.choice(("A", "CNAME"))
            response.answer.append(rows[kind])
            wire = response.to_wire()
            at = random.randrange(2, 13)
            found = dns.message.from_wire(wire[:at] + mutated(random, [wire[at:]]))
            if not query.is_response(found):
                raise dns.query.BadResponse
            return found

        with mock.patch("dns.query.tcp", tcp), suppress(DrctlError):
            json.dumps(reader.observe().evidence)

    cast(Any, reader)._server._connected = _Nothing
    return one


def _known(one: Callable[[Random, Any], None], known: Callable[[Path], Any]) -> Any:
    return lambda folder: partial(_swapped, one, known(folder))


def _swapped(one: Callable[[Random, Any], None], known: Any, random: Random) -> None:
    one(random, known)


TARGETS: Mapping[str, Callable[[Path], One]] = {
    **{each.name: partial(_format, each) for each in FORMATS},
    "broker-responses": _responses,
    "journal-lines": _journal_lines,
    "journal-topic": _journal_topic,
    "journals": _known(documents.of_journals, lambda _: documents.journals()),
    "ledger-topic": _ledger,
    "ledger-file": _ledger_file,
    "reconcile-progress": _progress,
    "gap-results": _known(documents.of_gap_results, lambda _: documents.GAPS),
    "gap-records": _known(documents.of_gap_records, documents.GapRecords),
    "export-manifests": _known(documents.of_export_manifests, documents.ExportManifests),
    "exported-records": _known(
        documents.of_exported_records, lambda _: [line_of(each) for each in documents.EXPORTED]
    ),
    "plans": _known(documents.of_plans, lambda folder: folder / "plan.json"),
    "drctl.yaml": _known(documents.of_yaml, lambda _: documents.YAML),
    "connect-responses": _known(documents.of_answers, lambda _: documents.Scripted()),
    "oauth-tokens": _tokens,
    "runbooks": _file(_runbook, _lint, "runbook.yaml"),
    "conditions": _conditions,
    "offset-documents": _file(_offsets, read_document, "offsets.json"),
    "source-offset-exports": _exports,
    "drill-history": _drills,
    "cdc-events": _events,
    "properties": _properties,
    "haproxy-responses": _haproxy,
    "dns-responses": _dns,
}
"""By name; each is given an empty folder."""

SLOW = frozenset(
    (
        *("journals", "journal-lines", "runbooks", "plans", "drctl.yaml", "offset-documents"),
        *("gap-results", "gap-records", "ledger-file"),
    )
)
"""An input of these takes one to fifteen milliseconds, of most others less than a tenth."""
