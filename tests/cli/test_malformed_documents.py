"""Documents written by others: a declared error, never a bug.

`DRCTL_FUZZ` sets the number of inputs of each kind; the nightly tests try a million.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from drctl.app.link_reader import Connectors
from drctl.app.loss import KnownEnds, LossReader
from drctl.app.plan_files import require_plan, write_plan
from drctl.app.replication_progress import ConnectorPositions
from drctl.config.loading import read
from drctl.config.mirrors import mirrors
from drctl.connect.client import ConnectWriter
from drctl.connectors.applying import kept as kept_of
from drctl.connectors.diagnosis import ConnectorHealth, status_document
from drctl.engine import run_state
from drctl.engine.run_state import decoding, read_run
from drctl.failback.facts import DAMAGED
from drctl.failback.gap_results import read_gap as failback_gap
from drctl.failback.observers.journal import observe_journal
from drctl.model.errors import DamagedJournal, DrctlError
from drctl.model.journal import JournalReader
from drctl.model.strict_json import read_json
from drctl.offsets.mirror_topics import aliases_of
from drctl.reconcile.gap_result import read_gap
from drctl.steps.source_offsets import kept_offsets
from drctl.stores.journal_files import RunFiles
from drctl.views.journal_text import entry_lines, journal_document, run_lines
from drctl.views.run_json import ReportDocument
from drctl.views.run_lines import next_steps
from drctl.views.run_page import render
from drctl.views.run_reading import report_data, sound_entries
from tests.report import gaps, runs

INPUTS = int(os.environ.get("DRCTL_FUZZ", "400"))
RUN = "20260305T142007Z-main"
ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1e300,
    "",
    "\ud800\n\x1b[2J",
    "9999-99-99",
    [],
    [[]],
    {},
    {"": None},
    [1, {"a": []}],
)


_PUT = ("", "{", "[", '"', "\\", "NaN", "1e999", "-", ",", "\x00", "null", ":", "[" * 200)
_PUT_IN_YAML = (
    *_PUT,
    *("!!int ", "!!bool ", "!!float ", "!!null ", "!!set ", "!!binary ", "&a ", "*a", "<<: "),
    *("0x" + "f" * 4_000, "#", "\n", "\n  ", ": ", "- ", "? ", "''", "|\n"),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return all places in a document."""
    yield at
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*at, name))


def changed(random: Random, document: Any) -> Any:
    """Return the document with some values replaced or removed."""
    found = json.loads(json.dumps(document))
    for _ in range(random.choice((1, 1, 2, 3))):
        *way, last = random.choice([at for at in places(found) if at] or [("",)])
        inside = found
        for name in way:
            inside = inside[name]
        if random.random() < 0.2 and found:
            del inside[last]
        else:
            inside[last] = deepcopy(random.choice(ODD))
    return found


def mangled(random: Random, text: str, putting: Sequence[str] = _PUT) -> str:
    """Return the text with characters removed, repeated or exchanged."""
    for _ in range(random.choice((1, 2, 5))):
        at = random.randrange(len(text) + 1)
        put = random.choice(putting)
        text = text[:at] + put + text[at + random.choice((0, 1, 3)) :]
    return text


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

    def sound(self, run: str) -> int:
        return run_state.verify(run, self.lines(run)).lines

    def set_aside(self, run: str) -> bool:
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
        data = report_data(read_run(sound_entries(run, lines, verdict)), verdict)
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
    text = json.dumps(random.choice(known))
    text = (
        mangled(random, text)
        if random.random() < 0.5
        else json.dumps(changed(random, json.loads(text)))
    )
    with suppress(DrctlError):
        read_gap(text, "here")
    with suppress(ValueError):
        document = read_json(text)
        with suppress(DrctlError):
            found = failback_gap(document, "here")
            assert found.unreplicated + found.duplicated + len(found.ends) + len(found.label)


PLAN = runs.planned()
DOCUMENT = {
    "schema": "drctl/plan/1",
    "fingerprint": "another",
    **PLAN.to_json(),
    "overrides": [{"precheck": "lag", "reason": "known"}],
}


def of_plans(random: Random, file: Path) -> None:
    document = changed(random, DOCUMENT)
    text = json.dumps(document)
    file.write_text(mangled(random, text) if random.random() < 0.5 else text, "utf-8", "replace")
    with suppress(DrctlError):
        require_plan(PLAN, file)


def of_yaml(random: Random, known: list[str]) -> None:
    text = mangled(random, random.choice(known), _PUT_IN_YAML)
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
    answer = changed(random, {"answer": random.choice(list(ANSWERS.values()))})
    text = json.dumps(answer.get("answer"))
    text = mangled(random, text) if random.random() < 0.5 else text
    known.data = text.encode("utf-8", "surrogatepass")
    known.status = random.choice((200, 200, 200, 202, 302, 404, 400, 502))
    for ask in known.all():
        with suppress(DrctlError):
            json.dumps(ask(), default=str)


def tried(count: int, one: Callable[[Random, Any], None], known: Any, named: str = "") -> None:
    random = Random(f"{one.__name__}{named}")
    for number in range(count):
        try:
            one(random, known)
        except Exception as error:
            error.add_note(f"input {number}")
            raise


GAPS = [make().to_json() for make in (gaps.hostile, gaps.tail_lost, gaps.not_complete)]


@pytest.mark.slow
def test_malformed_journals_with_valid_seals() -> None:
    tried(INPUTS // 4, of_journals, journals())


@pytest.mark.slow
def test_malformed_gap_results() -> None:
    tried(INPUTS, of_gap_results, GAPS)


@pytest.mark.slow
def test_malformed_plans(tmp_path: Path) -> None:
    tried(INPUTS, of_plans, tmp_path / "plan.json")


YAML = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[1] / "config" / "cases").glob("*.yaml"))
    if path.stem != "not-utf8"
]


@pytest.mark.slow
def test_malformed_yaml() -> None:
    tried(INPUTS // 4, of_yaml, YAML)


@pytest.mark.slow
def test_malformed_connect_answers() -> None:
    tried(INPUTS, of_answers, Scripted())


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


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("which", ["journals", "gap-results", "plans", "yaml", "answers"])
def test_a_million_inputs_of_each_kind(which: str, part: int, tmp_path: Path) -> None:
    """In ten parts, so that a failure is quick to repeat."""
    one, known = {
        "journals": (of_journals, journals()),
        "gap-results": (of_gap_results, GAPS),
        "plans": (of_plans, tmp_path / "plan.json"),
        "yaml": (of_yaml, YAML),
        "answers": (of_answers, Scripted()),
    }[which]
    tried(100_000, one, known, f" {part}")


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
            read_run(sound_entries(asked, lines, run_state.verify(asked, lines)))
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
