"""Judges whether a way back may begin, or go on: what is out of order, and what is lost."""

from drctl.engine.failback_state import Owed
from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.outstanding import Shown, settled_by
from drctl.engine.ports import LinkReader
from drctl.model.errors import Refused
from drctl.model.finding import Status
from drctl.model.plan import Json

ASKED_FOR = "way-back"
"""The mode in which guards speak of a way back."""

REBUILDING = "rebuild"
"""The mode in which they speak of one on which the returned cluster is filled anew."""

STEP_ORDER = "step-order"
"""The guard that stands against a way back on which something happened before its time."""

WHOLE = "source-whole"
"""The one that stands against filling a cluster anew that has lost nothing."""

CYCLES = "cycles"
"""The one that stands against any plan while records go round between both clusters."""

BROKEN = "source-broken"
"""The one that stands against leading clients to a cluster that takes no records."""

BOTH_WAYS = "replicator-both-ways"
"""The one that stands against two Replicators that copy again what one of them has copied."""

PRODUCERS = "producer-ids-collide"
"""The one that stands against leading producers to where others of their id are remembered."""

WRITES = "reverse-writes"
"""The one that stands against a connector that does not write to the cluster it copies to."""

PASSED = (STEP_ORDER, WHOLE, CYCLES, BROKEN, BOTH_WAYS, PRODUCERS, WRITES)
"""Those that may be passed over."""


class WayBackOrder(Polling):
    """What can be put right by the steps that follow is no reason to refuse."""

    name = "way-back-order"
    traits = Trait.JUDGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"see how far the way back to {settings['target']} has come, and in which order"
        passed = ", ".join(sorted(settings["overrides"])) or "none"
        lost = "nothing is lost, or"
        if settings.get("mode") == REBUILDING:
            lost = f"{settings['target']} has lost records, and nothing is"
        return Description(title, f"{lost} out of order (passed over: {passed})")

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """Ask.

        Raises:
            Refused: something stands against it that is not passed over; each is named.
        """
        mode = settings.get("mode", ASKED_FOR)
        found = [each for each in look.findings(mode) if each.status is not Status.OK]
        against = [
            each
            for each in found
            if each.status is Status.FAIL
            and not (each.check in PASSED and each.check in settings["overrides"])
        ]
        if against:
            raise Refused(
                "; ".join(f"{each.subject}: {each.reason}" for each in against),
                "; ".join(dict.fromkeys(each.cure for each in against if each.cure)),
            )
        return {"warnings": [f"{each.check}: {each.subject}: {each.reason}" for each in found]}

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """They were asked a moment ago."""
        number = len(intent["warnings"])
        return Seen(State.DONE, f"nothing stands against it; {number} to know of", intent)


_SHOWN = 3
_BY_A_PERSON = "a person says so"


class SettleOwed(Polling):
    """The proofs of this run settle what they are about, and nothing else."""

    name = "settle-owed"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        proof = "each of it is named with the proof that settles it; what none settles stays owed"
        return Description("settle what earlier runs owe", proof)

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
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

    def verify(self, intent: Json, look: LinkReader) -> Seen:
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
