"""Acts on the records of a search, by policy; what is done is not taken back."""

from collections.abc import Iterator
from typing import Any

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.errors import Refused
from drctl.model.plan import Json, Plan, Step

_STAYS = "what was decided on stays so: the next run finds it there"
COPY, DISCARD = "copy", "discard"


class Reconcile:
    """Each record once, in the order of its partition, also after a crash."""

    name = "reconcile"
    traits = Trait.CHANGES | Trait.RECONCILES | Trait.OTHER_WAY | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        told = ", ".join(settings["topics"]) or settings["policy"] or "nothing is said"
        title = (
            f"decide on each of these records: {told}; conflicting ones: {settings['conflicting']}"
        )
        proof = f"{settings['source']} keeps with the records that all of them are done"
        return Description(title, proof, f"none: {_STAYS}")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """What there is to do.

        Raises:
            Refused: some records have no decision, or must not be acted upon.
            Unknown: the result is elsewhere, and not everything could be compared.
        """
        search = facts["find-missing"]
        wish = wish_of(settings, search)
        if not search["unreplicated"]:
            return {**wish, "records": 0, "due": 0}
        stands = look.reconciliation(wish)
        if stands.refused:
            raise Refused("; ".join(stands.refused), "decide: --policy, --conflicting")
        records = search["unreplicated"]
        return {**wish, "records": records, "due": stands.due, "newer": stands.newer}

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Do what is left; a run that was ended in the middle goes on where it stood."""
        if intent["due"]:
            hands.reconcile(intent)
        return ()

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether something is left."""
        if not intent["records"]:
            return Seen(State.DONE, "there is nothing to decide on", {"left_behind": 0, "done": {}})
        stands = look.reconciliation(intent)
        if stands.due or stands.refused:
            words = f"{stands.due:,} of {intent['records']:,} records are left"
            return Seen(State.WAITING, words, {}, stands.refused)
        done = dict(sorted(stands.done.items()))
        told = ", ".join(f"{number:,} {what}" for what, number in done.items())
        left = sum(number for what, number in done.items() if what != COPY)
        # On another machine than that of the run the search was made anew, and found none.
        words = f"all are done: {told}" if told else "none of them is missing any more"
        # Journals of before do not say it.
        if newer := intent.get("newer", 0):
            words += f"; {newer:,} safe ones stand behind something newer that was written since"
        return Seen(State.DONE, words, {"left_behind": left, "done": done})

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: records that were appended are there for good."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """That it stays."""
        return Seen(State.DONE, _STAYS, {"stays": self.name} if intent["due"] else {})


def discards(plan: Plan) -> str:
    """What a plan gives up for good, in words: `missing records of audit`; empty for nothing."""
    told = (words for step in plan.steps for words in _discarded(step))
    return ", ".join(dict.fromkeys(told))


def _discarded(step: Step) -> Iterator[str]:
    if step.kind != Reconcile.name:
        return
    settings = step.settings
    for text in settings["topics"]:
        topic, named, own = text.partition("=")
        if (own if named else settings["policy"]) == DISCARD:
            yield f"missing records of {topic}"
        if settings["conflicting"] == DISCARD:
            yield f"conflicting records of {topic}"


def wish_of(settings: Json, search: Json) -> dict[str, Any]:
    """What `Look.reconciliation` and `Hands.reconcile` are told."""
    return {
        "folder": search["folder"],
        # Journals of before do not name it.
        "result": search.get("id", ""),
        "policy": settings["policy"],
        "topics": list(settings["topics"]),
        "conflicting": settings["conflicting"],
    }
