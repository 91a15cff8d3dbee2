"""Looks once more at everything that was to be brought in line, and names what is left."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.shapes import counted
from drctl.model.finding import Status
from drctl.model.plan import Json

AGAIN = "again"
"""What findings are asked for: differences that are there now."""


class SecondLook(Looking):
    """What could be changed and is not yet is waited for; what nobody but a person can is owed."""

    name = "second-look"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        return Description(
            f"compare {target} with {source} once more",
            "no difference is left that drctl would change",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing is needed."""
        return dict(settings)

    def verify(self, intent: Json, look: Look) -> Seen:
        """What differs now."""
        found = look.findings(AGAIN)
        open_ = tuple(each.subject for each in found if each.status is Status.FAIL)
        left = tuple(f"{each.subject}: {each.reason}" for each in found if _is_left(each.status))
        if open_:
            words = (
                f"there still, or again: {counted(len(open_), 'difference')}: {'; '.join(open_)}"
            )
            return Seen(State.WAITING, words, {}, open_)
        words = "no difference is left that drctl would change"
        if not left:
            return Seen(State.DONE, words, {"left": 0})
        owes = f"left to a person: {counted(len(left), 'difference')}: {'; '.join(left)}"
        words = f"{words}; left to a person: {len(left)}"
        return Seen(State.DONE, words, {"left": len(left)}, left, owes)


def _is_left(status: Status) -> bool:
    return status is Status.WARN
