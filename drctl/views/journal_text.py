"""Runs and their entries, as a document and as lines."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from drctl.engine.entries import Entry
from drctl.engine.run_state import RunState, read_run
from drctl.model.document import OPTIONAL, Document, From, Name
from drctl.model.errors import DamagedJournal
from drctl.model.journal import JournalReader
from drctl.views.text import plain, sentence

_WORDS = ("message", "what", "why", "status")


class EntryDocument(Document):
    """An entry of a run's journal.

    Attributes:
        line: the line of the journal, with its checksum.
    """

    at: Name
    entry: Name
    step: str | None
    effect: Annotated[int | None, ("minimum", 1)]
    message: str
    line: str


class RunInJournal(Document):
    """A run.

    Attributes:
        plan: the sequence or runbook.
        status: done, refused, stopped, ..., not-ended; damaged if its journal is not intact.
        began: null if the journal is damaged.
        damage: what is wrong; only if the journal is damaged.
        entries: only if one run was requested.
    """

    read = From(RunState)
    run: Name
    plan: Name = read(lambda run: run.plan.name)
    status: Name = read(lambda run: run.status or "not-ended")
    began: str | None = read(lambda run: run.began.isoformat())
    damage: Annotated[str | None, OPTIONAL] = None
    who: Mapping[str, str]
    entries: Annotated[tuple[EntryDocument, ...] | None, OPTIONAL] = None


class JournalDocument(Document):
    """The runs of a link, or one run with its entries.

    Attributes:
        runs: the newest first.
    """

    SCHEMA = "drctl/journal/1"
    link: Name
    runs: tuple[RunInJournal, ...]


def journal_document(link: str, reader: JournalReader, run: str | None) -> JournalDocument:
    """All runs of a link, or one with its entries.

    Raises:
        UsageError: there is no such run.
        Unknown: the journal cannot be read, or is damaged.
    """
    if run is None:
        runs = [_listed(reader, name) for name in reader.runs()]
    else:
        entries = reader.entries(run)
        state = read_run(entries)
        lines = (line.decode() for line in reader.lines(run))
        documents = tuple(_entry(entry, line) for entry, line in zip(entries, lines, strict=True))
        runs = [RunInJournal.of(state, entries=documents)]
    return JournalDocument(link=link, runs=tuple(runs))


def run_lines(document: JournalDocument) -> Iterator[str]:
    """Format one line per run."""
    if not document.runs:
        yield f"link {document.link} has no runs"
    for run in document.runs:
        by = f"by {plain(run.who.get('user', '?'))} on {plain(run.who.get('host', '?'))}"
        end = by if run.damage is None else plain(run.damage)
        yield f"{plain(run.run)}  {plain(run.status):<9}  {plain(run.plan)}  {end}"


def entry_lines(document: JournalDocument) -> Iterator[str]:
    """Format one line per entry of the run."""
    for entry in document.runs[0].entries or ():
        number = f" #{entry.effect}" if entry.effect else ""
        place = f"{plain(entry.step or '')}{number}"
        message = sentence(entry.message)
        yield f"{plain(entry.at[:23])}  {entry.entry:<11}  {place:<24}  {message}".rstrip()


def _listed(reader: JournalReader, run: str) -> RunInJournal:
    """Read a run for the list; a damaged journal does not hide the others."""
    try:
        return RunInJournal.of(read_run(reader.entries(run)))
    except DamagedJournal as wrong:
        damage = wrong.message
    return RunInJournal(
        run=run, plan="unknown", status="damaged", began=None, who={}, damage=damage
    )


def _entry(entry: Entry, line: str) -> EntryDocument:
    return EntryDocument(
        at=entry["at"],
        entry=entry["entry"],
        step=entry.get("step"),
        effect=entry.get("effect"),
        message=str(next((entry[name] for name in _WORDS if name in entry), "")),
        line=line,
    )
