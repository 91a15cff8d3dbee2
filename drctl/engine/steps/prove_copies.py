"""Compares everything once clients have moved: nothing is missing, and nothing is there twice."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json


class ProveCopies(Looking):
    """What was decided to be left behind may be missing; what is on its way is waited for."""

    name = "prove-copies"
    traits = Trait.VERIFIES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        title = f"compare all of {source} with {target}, record by record"
        return Description(title, "nothing is missing but what was decided on, nothing is twice")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """What may be missing, what was there twice before, and what is twice on the source.

        Equal records are counted: a second copy on one side is missing on the other.
        """
        search, decided = facts.get("find-missing", {}), facts.get("reconcile", {})
        twice_away = search.get("duplicated", 0)
        twice_home = facts.get("prove-copies", {}).get("duplicated", 0)
        old, emptied = settings["old_way"], settings.get("emptied", False)
        return {
            "target": settings["target"],
            # What was emptied has none of the records left that were decided on.
            "may_lack": decided.get("left_behind", 0) if old and not emptied else 0,
            "second_copies": twice_home if old else twice_away,
            "twice_before": twice_away if old else 0,
        }

    def verify(self, intent: Json, look: Look) -> Seen:
        """What a comparison finds now."""
        found = look.proof()
        if unproven := found.unproven:
            words = f"not everything could be compared: {unproven[0]}"
            return Seen(State.WAITING, words, {}, unproven)
        missing = found.but_for(intent.get("second_copies", 0))
        lacks, target = missing - intent["may_lack"], intent["target"]
        if lacks > 0:
            words = f"{target} lacks {lacks:,} records that nobody decided to leave behind"
            return Seen(State.WAITING, words, {}, found.partitions)
        facts = {"missing": missing, "duplicated": found.duplicated}
        twice = found.duplicated - intent["twice_before"]
        words = f"{target} lacks {missing:,} records, as decided; {max(0, twice):,} are twice"
        owes = f"{twice:,} records are on {target} more often than once" if twice > 0 else ""
        return Seen(State.DONE, words, facts, owes=owes)
