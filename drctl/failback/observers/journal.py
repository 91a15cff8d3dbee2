"""What the journal tells of the newest runs; evidence beside what is seen."""

from itertools import islice

from drctl.engine.story import read_story
from drctl.failback.facts import RunTold
from drctl.model.journal import JournalReader

_RUNS = 10


def observe_journal(reader: JournalReader) -> tuple[RunTold, ...]:
    """The newest first.

    Raises:
        Unknown: it cannot be read, or is damaged.
    """
    found = []
    for run in islice(reader.runs(), _RUNS):
        story = read_story(reader.entries(run))
        status = story.status or "not ended"
        found.append(RunTold(run, story.plan.name, status, tuple(story.owed.values())))
    return tuple(found)
