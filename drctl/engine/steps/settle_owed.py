"""Says what earlier runs over the link owed, and that it is owed no more: clients are home."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json


class SettleOwed(Looking):
    """A fence that was owed stood while the way back was gone; the rest was about the survivor."""

    name = "settle-owed"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description("settle what earlier runs owe", "each of it is named in the journal")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """What they owe.

        Raises:
            Unreachable: the journal did not answer.
        """
        fenced = "it stood fenced until its records were found"
        home = "it was about clients that have moved again since"
        told = [
            f"{each.what} (run {each.run}): {fenced if each.fences else home}"
            for each in look.owed()
        ]
        return {"settled": told}

    def verify(self, intent: Json, look: Look) -> Seen:
        """All of it is settled."""
        settled = intent["settled"]
        words = f"{len(settled)} things that were owed are settled"
        return Seen(State.DONE, words if settled else "nothing is owed", intent, tuple(settled))
