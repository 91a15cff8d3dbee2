"""Finds what only a cluster has that was lost and is back, before anything can bury it.

Its result stays on disk: decisions are made on it, and the way home begins where it says.
"""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.returning import told_of
from drctl.model.plan import Json


class FindMissing(Looking):
    """Compares everything; where decisions rest on an older result that still holds, takes that."""

    name = "find-missing"
    traits = Trait.FINDS_GAP | Trait.OTHER_WAY

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"find every record that only {settings['target']} has"
        proof = "the comparison is complete"
        if not settings.get("rebuild"):
            proof = f"{proof}, and tells where new records begin"
        return Description(title, proof)

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Search.

        Raises:
            Refused: what was found cannot be rested on.
            Unknown: not everything could be compared.
        """
        found = look.remnant() if settings.get("rebuild") else look.searched()
        return found.to_json()

    def verify(self, intent: Json, look: Look) -> Seen:
        """What was found."""
        words = f"{intent['unreplicated']:,} records ({told_of(intent)}); {intent['folder']}"
        if not intent["folder"]:
            words = "it holds no record at all"
        elif intent.get("aside"):
            words = f"{words}; {intent['aside']:,} more the survivor has compacted or deleted"
        return Seen(State.DONE, words, intent)
