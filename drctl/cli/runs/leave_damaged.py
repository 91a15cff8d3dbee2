"""`drctl resume --abandon` of a run whose journal is damaged: its link is freed.

Only the journal on the cluster is written: the copy on this machine may be the better one.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from drctl.cli.confirmation import confirm
from drctl.cli.console import console
from drctl.cli.runs import plan_wiring, run_journal
from drctl.cli.runs.run_ending import show_end, show_state
from drctl.cli.stopping import stoppable
from drctl.engine import chain, entries
from drctl.engine.abandoning import standing
from drctl.engine.outcome import Outcome, Status
from drctl.engine.registry import KINDS
from drctl.engine.story import Story, read_story
from drctl.model.errors import DamagedJournal, ExitCode
from drctl.model.lines import lines as meant

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.journal import JournalReader

_BEHIND = "behind the damage"


def leave_damaged(
    config: "Config",
    link: "Link",
    reader: "JournalReader",
    run: str,
    why: str,
    *,
    execute: bool,
    yes: bool,
) -> int:
    """Show what can be read of the run, and with `execute` leave it behind.

    Raises:
        Refused: somebody carries it out, it has ended, or nobody confirmed.
        Unknown: the journal cannot be read or written.
    """
    lines = reader.lines(run)
    sound = reader.sound(run)
    story = _readable(lines[:sound])
    stands = {} if story is None else dict(standing(story, KINDS))
    stands[_BEHIND] = (
        f"not known: what run {run} changed behind line {sound} of its journal; look at both"
        " clusters (drctl status, drctl doctor), and at the copies of the journal"
    )
    if not execute:
        console().note(f"left behind, this would stay as it is: {'; '.join(stands.values())}")
        if story is not None:
            return show_state(story)
        _show(run, Status.UNKNOWN)
        return int(ExitCode.DONE)
    confirm(link.target, f"leave run {run} behind", yes=yes)
    held, at = run_journal.holder(run), datetime.now(UTC)
    told = [
        entries.resumed(run_journal.who(held), at),
        entries.abandoned(why, stands, at),
        entries.ended(Status.STOPPED.value, at),
    ]
    journal = plan_wiring.journal_topic(link)
    with journal.leave(held) as taken, stoppable():
        taken.append(told)
    if story is None:
        _show(run, Status.STOPPED, tuple(stands.values()))
        return int(ExitCode.FOUND)
    story.take(told)
    left = Outcome(Status.STOPPED, words=why, items=tuple(stands.values()), abandoned=True)
    return show_end(config, story, left)


def _readable(lines: Sequence[bytes]) -> Story | None:
    """What the run did as far as its journal is sound; None where not even its plan is."""
    told = [chain.opened(line).entry for line in lines]
    try:
        return read_story(told) if told else None
    except DamagedJournal:
        return None


def _show(run: str, status: Status, owed: Sequence[str] = ()) -> None:
    """The contract's document of a run, of which nothing else is known."""
    nothing = {"records": None, "seconds": None, "exact": False}
    document = {
        "schema": "drctl/run/1",
        "run": run,
        "status": status.value,
        "steps": [],
        "rto_seconds": None,
        "rpo": nothing,
        "owed": list(owed),
        "report": None,
    }
    became = "was left behind" if status is Status.STOPPED else "cannot be read"
    console().result(meant((f"run {run} {became}", *owed)), document)
