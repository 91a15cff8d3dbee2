"""Finds every record that is on the source and not on the target, by content."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json


class FindGap(Looking):
    """Compares; more missing records than allowed end the plan."""

    name = "gap"
    traits = Trait.FINDS_GAP

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        most = settings["at_most"]
        title = f"find what {settings['target']} lacks of {settings['source']}"
        proof = "the comparison is complete"
        return Description(title, proof if most is None else f"{proof}, {most:,} missing at most")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing has to be decided."""
        return {"scope": settings["scope"], "at_most": settings["at_most"]}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What is missing now."""
        missing = look.compared(intent["scope"])
        if unproven := missing.unproven:
            words = f"not everything could be compared: {unproven[0]}"
            return Seen(State.UNKNOWN, words, {}, unproven)
        words = f"{missing.records:,} records are missing on the target"
        facts = {"unreplicated": missing.records}
        most = intent["at_most"]
        if most is not None and missing.records > most:
            return Seen(State.FAILED, f"{words}, not {most:,} at most", facts, missing.partitions)
        return Seen(State.DONE, words, facts, missing.partitions)
