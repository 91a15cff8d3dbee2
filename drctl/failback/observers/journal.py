"""What the journal tells of the newest runs; evidence beside what is seen."""

from itertools import islice

from drctl.engine.outcome import Status
from drctl.engine.sequences.failback import leads_home
from drctl.engine.story import read_story
from drctl.failback.facts import RunTold
from drctl.model.journal import JournalReader

_RUNS = 10


def observe_journal(reader: JournalReader) -> tuple[RunTold, ...]:
    """The newest first; what was owed before everybody came home is owed no more.

    Raises:
        Unknown: it cannot be read, or is damaged.
    """
    found, home = [], False
    for run in islice(reader.runs(), _RUNS):
        story = read_story(reader.entries(run))
        owed = () if home else tuple(story.owed.values())
        way_home = leads_home(story.plan.steps)
        led_home = way_home and story.status == Status.DONE
        status = story.status or "not ended"
        halfway = way_home and not story.status
        found.append(RunTold(run, story.plan.name, status, owed, led_home, halfway))
        home = home or led_home
    return tuple(found)
