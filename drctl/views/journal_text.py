"""Runs and their entries, as a document and as lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from drctl.engine.entries import Entry
from drctl.engine.run_state import RunState, read_story
from drctl.model.errors import DamagedJournal
from drctl.model.journal import JournalReader
from drctl.views.text import plain, sentence

Document = Mapping[str, Any]

_WORDS = ("words", "what", "why", "status")


def journal_document(link: str, reader: JournalReader, run: str | None) -> dict[str, Any]:
    """All runs of a link, or one with its entries.

    Raises:
        UsageError: there is no such run.
        Unknown: the journal cannot be read, or is damaged.
    """
    if run is None:
        runs = [_listed(reader, name) for name in reader.runs()]
    else:
        entries = reader.entries(run)
        lines = (line.decode() for line in reader.lines(run))
        story = read_story(entries)
        told = [_entry(entry, line) for entry, line in zip(entries, lines, strict=True)]
        runs = [{**_run(story), "entries": told}]
    return {"schema": "drctl/journal/1", "link": link, "runs": runs}


def run_lines(document: Document) -> Iterator[str]:
    """A line for each run."""
    if not document["runs"]:
        yield f"link {document['link']} has no runs"
    for run in document["runs"]:
        who = run["who"]
        by = f"by {plain(who.get('user', '?'))} on {plain(who.get('host', '?'))}"
        end = plain(run["damage"]) if "damage" in run else by
        yield f"{plain(run['run'])}  {plain(run['status']):<9}  {plain(run['plan'])}  {end}"


def entry_lines(document: Document) -> Iterator[str]:
    """A line for each entry of the run."""
    for entry in document["runs"][0]["entries"]:
        number = f" #{entry['effect']}" if entry["effect"] else ""
        place = f"{plain(entry['step'] or '')}{number}"
        words = sentence(entry["words"])
        yield f"{plain(entry['at'][:23])}  {entry['entry']:<11}  {place:<24}  {words}".rstrip()


def _listed(reader: JournalReader, run: str) -> dict[str, Any]:
    """A run in a list: one whose journal is damaged hides none of the others."""
    try:
        return _run(read_story(reader.entries(run)))
    except DamagedJournal as wrong:
        told: dict[str, Any] = {
            "run": run,
            "plan": "unknown",
            "status": "damaged",
            "began": None,
            "who": {},
        }
        return {**told, "damage": wrong.message}


def _run(story: RunState) -> dict[str, Any]:
    return {
        "run": story.run,
        "plan": story.plan.name,
        "status": story.status or "not-ended",
        "began": story.began.isoformat(),
        "who": dict(story.who),
    }


def _entry(entry: Entry, line: str) -> dict[str, Any]:
    return {
        "at": entry["at"],
        "entry": entry["entry"],
        "step": entry.get("step"),
        "effect": entry.get("effect"),
        "words": str(next((entry[name] for name in _WORDS if name in entry), "")),
        "line": line,
    }
