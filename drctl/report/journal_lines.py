"""Runs and their entries, as a document and as lines."""

from collections.abc import Iterator, Mapping
from typing import Any

from drctl.engine.entries import Entry
from drctl.engine.story import Story, read_story
from drctl.model.journal import JournalReader

Document = Mapping[str, Any]

_WORDS = ("words", "what", "why", "status")


def journal_document(link: str, reader: JournalReader, run: str | None) -> dict[str, Any]:
    """All runs of a link, or one with its entries.

    Raises:
        UsageError: there is no such run.
        Unknown: the journal cannot be read, or is damaged.
    """
    if run is None:
        runs = [_run(read_story(reader.entries(name))) for name in reader.runs()]
    else:
        entries = reader.entries(run)
        lines = (line.decode() for line in reader.lines(run))
        told = [_entry(entry, line) for entry, line in zip(entries, lines, strict=True)]
        runs = [{**_run(read_story(entries)), "entries": told}]
    return {"schema": "drctl/journal/1", "link": link, "runs": runs}


def run_lines(document: Document) -> Iterator[str]:
    """A line for each run."""
    if not document["runs"]:
        yield f"link {document['link']} has no runs"
    for run in document["runs"]:
        who = run["who"]
        by = f"{who.get('user', '?')} on {who.get('host', '?')}"
        yield f"{run['run']}  {run['status']:<9}  {run['plan']}  by {by}"


def entry_lines(document: Document) -> Iterator[str]:
    """A line for each entry of the run."""
    for entry in document["runs"][0]["entries"]:
        number = f" #{entry['effect']}" if entry["effect"] else ""
        place = f"{entry['step'] or ''}{number}"
        yield f"{entry['at'][:23]}  {entry['entry']:<11}  {place:<24}  {entry['words']}".rstrip()


def _run(story: Story) -> dict[str, Any]:
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
