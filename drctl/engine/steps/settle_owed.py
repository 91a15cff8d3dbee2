"""Settles what earlier runs over the link owed, each by what the way home has shown.

What nothing has shown is asked of a person, where one is there; else it stays owed.
"""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.returning import Owed
from drctl.engine.settling import Shown, settled_by
from drctl.model.plan import Json

_SHOWN = 3
_BY_A_PERSON = "a person says so"


class SettleOwed(Looking):
    """The proofs of this run settle what they are about, and nothing else."""

    name = "settle-owed"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        proof = "each of it is named with the proof that settles it; what none settles stays owed"
        return Description("settle what earlier runs owe", proof)

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """What they owe, and what of it is settled.

        Raises:
            Unreachable: the journal did not answer.
        """
        owed = look.owed()
        # Plans of older drctl name no clusters: then no proof is about one of them.
        shown = Shown(settings.get("source", ""), settings.get("target", ""), facts)
        proofs = [settled_by(each, shown) for each in owed]
        return {
            "question": settings.get("question", ""),
            "settled": [_told(each, why) for each, why in zip(owed, proofs, strict=True) if why],
            "kept": [each.to_json() for each, why in zip(owed, proofs, strict=True) if not why],
        }

    def verify(self, intent: Json, look: Look) -> Seen:
        """What is settled; what is not stays owed, unless a person knows better."""
        settled, question = intent["settled"], intent["question"]
        kept = [Owed.from_json(each) for each in intent["kept"]]
        if kept and question and look.answer(question, _asked(kept)):
            settled, kept = [*settled, *(_told(each, _BY_A_PERSON) for each in kept)], []
        facts = {"settled": settled, "kept": [each.to_json() for each in kept]}
        words = f"{len(settled)} things that were owed are settled"
        if not kept:
            words = words if settled else "nothing is owed"
            return Seen(State.DONE, words, facts, tuple(settled))
        words = f"{words}, {len(kept)} stay owed"
        more = f"; and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
        owes = f"nothing has proven that this is settled: {_listed(kept)}{more}"
        if question:
            owes += f"; once it is: --answer {question}=yes at the next way home"
        items = (*settled, *(f"still owed: {_named(each)}" for each in kept))
        return Seen(State.DONE, words, facts, items, owes)


def _told(each: Owed, why: str) -> str:
    return f"{_named(each)}: {why}"


def _named(each: Owed) -> str:
    return f"{each.what} (run {each.run})"


def _listed(kept: list[Owed]) -> str:
    return "; ".join(map(_named, kept[:_SHOWN]))


def _asked(kept: list[Owed]) -> str:
    return f"say whether this is settled, which nothing has proven: {'; '.join(map(_named, kept))}"
