"""What the runs over a link owe, from their journals: back to the last finished way home."""

from collections.abc import Iterable, Iterator, Sequence

from drctl.engine.kind import Trait
from drctl.engine.registry import KINDS
from drctl.engine.returning import Owed
from drctl.engine.sequences.failback import leads_home
from drctl.engine.steps.settle_owed import SettleOwed
from drctl.engine.story import Story


def owed_since_the_last(stories: Iterable[Story]) -> Sequence[Owed]:
    """What runs owe that have ended; what is older was settled by that way home, or kept by it.

    Args:
        stories: the newest first; no more of them are asked for than is needed.
    """
    found: list[Owed] = []
    for story in stories:
        if story.status:
            found += _owed_by(story)
        if leads_home(story.plan.steps) and story.status == "done":
            break
    return found


def _owed_by(story: Story) -> Iterator[Owed]:
    for step, what in story.owed.items():
        kind, facts = story.plan.step(step).kind, story.facts.get(step, {})
        if kind == SettleOwed.name:
            # What it could not settle is still what it was.
            yield from map(Owed.from_json, facts.get("kept", ()))
            continue
        known = KINDS.get(kind)
        fences = known is not None and Trait.FENCES_WRITES in known.traits
        groups = (
            *(row.partition(" ")[0].rstrip(":") for row in facts.get("left_out", ())),
            *facts.get("wrong_groups", ()),
        )
        ends = (story.plan.source, story.plan.target)
        yield Owed(story.run, what, kind, *ends, fences, tuple(sorted(set(groups))))
