"""Judges what copying the records of a search would do to order, and that each has a decision."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.returning import told_of
from drctl.engine.steps.reconcile import wish_of
from drctl.model.errors import Refused
from drctl.model.pasting import quote
from drctl.model.plan import Json


class JudgeRecords(Looking):
    """Refuses where nobody has said what becomes of them."""

    name = "judge-records"
    traits = Trait.JUDGES | Trait.OTHER_WAY

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description("judge the order of these records", "each of them has a decision")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Hold the policies against what was found.

        Raises:
            Refused: some records have no decision, or must not be acted upon.
        """
        search = facts["find-missing"]
        found = {name: search[name] for name in ("safe", "conflicting", "unkeyed")}
        if not search["unreplicated"]:
            return {**found, "due": 0}
        stands = look.reconciliation(wish_of(settings, search))
        if stands.refused:
            raise Refused(
                f"of {search['unreplicated']:,} records that only {settings['target']} has"
                f" ({told_of(search)}): {'; '.join(stands.refused)}",
                "decide: --policy copy|quarantine|export|discard, --conflicting likewise;"
                f" look at them: drctl reconcile {quote(search['folder'])} --policy copy",
            )
        return {**found, "due": stands.due}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What was judged."""
        return Seen(State.DONE, f"{told_of(intent)}; each has a decision", intent)
