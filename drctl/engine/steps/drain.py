"""Waits until the target holds everything that the fenced source holds, by content."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.last_look import MOVED
from drctl.model.plan import Json


class Drain(Looking):
    """Compares the tail until nothing of it is missing."""

    name = "drain"
    traits = Trait.DRAINS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"let replication bring everything to {settings['target']}"
        return Description(title, "a comparison of the tail finds no missing record")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """How many second copies the source is known to hold, and what is passed over.

        Equal records are counted, so that each of these is missing on the target, for good.
        """
        second = facts.get("find-missing", {}).get("duplicated", 0)
        return {"second_copies": second, "passed": settings.get("overrides", {}).get(MOVED, "")}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What is missing now."""
        second = intent.get("second_copies", 0)
        # A tail may hold some of them and not others: only where all count do they cancel out.
        missing = look.compared("full") if second else look.missing()
        if unproven := missing.unproven:
            words = f"{len(unproven):,} partitions are not proven yet: {unproven[0]}"
            return Seen(State.WAITING, words, {}, unproven)
        records = missing.but_for(second)
        if records:
            if why := intent.get("passed"):
                told = f"{records:,} records are missing, which is passed over: {why}"
                return Seen(State.DONE, told, {"missing": records}, missing.partitions, told)
            words = f"{records:,} records are still missing"
            return Seen(State.WAITING, words, {}, missing.partitions)
        before = missing.left_before
        aside = f" but {before:,} that were quarantined or discarded before" if before else ""
        return Seen(State.DONE, f"no record is missing on the target{aside}", {"missing": 0})
