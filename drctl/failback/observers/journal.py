"""What the journal tells of the newest runs; evidence beside what is seen."""

from itertools import islice

from drctl.engine.outcome import Status
from drctl.engine.sequences.failback import leads_home
from drctl.engine.steps.open_target import OpenTarget
from drctl.engine.story import Story, read_story
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
        left = story.began if not way_home and _opened(story) else None
        found.append(RunTold(run, story.plan.name, status, owed, led_home, halfway, left))
        home = home or led_home
    return tuple(found)


def _opened(story: Story) -> bool:
    """Whether it opened the target to clients, or may have, and did not take that back."""
    opening = {step.id for step in story.plan.steps if step.kind == OpenTarget.name}
    return any(each.step in opening and not each.undone for each in story.effects)
