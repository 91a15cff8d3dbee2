"""Waits until replication is close behind, while its source still takes writes."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json


class CaughtUp(Looking):
    """By content: offsets of a connector that leaves records out tell less."""

    name = "caught-up"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"wait until {settings['target']} has what {settings['source']} has"
        what = "a comparison of everything" if settings["scope"] == "full" else "a comparison"
        return Description(title, f"{what} finds {settings['at_most']:,} missing at most")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing has to be decided."""
        return {"scope": settings["scope"], "at_most": settings["at_most"]}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What is missing now."""
        missing = look.compared(intent["scope"])
        if missing.not_compared:
            words = f"not everything could be compared: {missing.not_compared[0]}"
            return Seen(State.WAITING, words, {}, missing.not_compared)
        words = f"{missing.records:,} records are still on their way"
        if missing.records > intent["at_most"]:
            return Seen(State.WAITING, words, {}, missing.partitions)
        return Seen(State.DONE, words)
