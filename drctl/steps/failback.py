"""Whether a failback may begin or continue, and which outstanding actions it settles."""

from drctl.engine.failback_state import Owed
from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.outstanding import Shown, settled_by
from drctl.engine.ports import LinkReader
from drctl.model.errors import Refused
from drctl.model.finding import Status
from drctl.model.plan import Json

ASKED_FOR = "way-back"
"""The mode of prechecks for a failback."""

REBUILDING = "rebuild"
"""Their mode for a rebuild, in which the returned cluster is filled again from scratch."""

STEP_ORDER = "step-order"
"""Blocks a failback in which something was done out of order."""

WHOLE = "source-whole"
"""Blocks a rebuild of a cluster that has lost nothing."""

CYCLES = "cycles"
"""Blocks any plan while records loop between both clusters."""

BROKEN = "source-broken"
"""Blocks moving clients to a cluster that takes no records."""

BOTH_WAYS = "replicator-both-ways"
"""Blocks two Replicators that copy again what one of them has copied."""

PRODUCERS = "producer-ids-collide"
"""Blocks moving producers to where others with their id are remembered."""

WRITES = "reverse-writes"
"""Blocks a connector that does not write to the cluster it copies to."""

PASSED = (STEP_ORDER, WHOLE, CYCLES, BROKEN, BOTH_WAYS, PRODUCERS, WRITES)
"""Those that may be overridden."""


class WayBackOrder(Polling):
    """What the steps that follow put right is no blocker."""

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

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Ask.

        Raises:
            Refused: there are blockers that are not overridden; each is named.
        """
        mode = settings.get("mode", ASKED_FOR)
        found = [each for each in reader.findings(mode) if each.status is not Status.OK]
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

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """They were asked a moment ago."""
        number = len(intent["warnings"])
        return Seen(State.DONE, f"nothing stands against it; {number} to know of", intent)


_SHOWN = 3
_BY_A_PERSON = "a person says so"


class SettleOwed(Polling):
    """The proofs of this run settle the outstanding actions they are about, and nothing else."""

    name = "settle-owed"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        proof = "each of it is named with the proof that settles it; what none settles stays owed"
        return Description("settle what earlier runs owe", proof)

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """What they owe, and what of it is settled.

        Raises:
            Unreachable: the journal did not answer.
        """
        owed = reader.owed()
        # Plans of older drctl name no clusters: then no proof is about one of them.
        shown = Shown(settings.get("source", ""), settings.get("target", ""), facts)
        proofs = [settled_by(each, shown) for each in owed]
        return {
            "question": settings.get("question", ""),
            "settled": [_told(each, why) for each, why in zip(owed, proofs, strict=True) if why],
            "kept": [each.to_json() for each, why in zip(owed, proofs, strict=True) if not why],
        }

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What is settled; what is not stays owed, unless a person knows better."""
        settled, question = intent["settled"], intent["question"]
        kept = [Owed.from_json(each) for each in intent["kept"]]
        if kept and question and reader.answer(question, _asked(kept)):
            settled, kept = [*settled, *(_told(each, _BY_A_PERSON) for each in kept)], []
        facts = {"settled": settled, "kept": [each.to_json() for each in kept]}
        words = f"{len(settled)} things that were owed are settled"
        if not kept:
            words = words if settled else "nothing is owed"
            return Seen(State.DONE, words, facts, tuple(settled))
        words = f"{words}, {len(kept)} stay owed"
        shown = "; ".join(map(_named, kept[:_SHOWN]))
        more = f"; and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
        owes = f"nothing has proven that this is settled: {shown}{more}"
        if question:
            owes += f"; once it is: --answer {question}=yes at the next way home"
        items = (*settled, *(f"still owed: {_named(each)}" for each in kept))
        return Seen(State.DONE, words, facts, items, owes)


def _told(each: Owed, why: str) -> str:
    return f"{_named(each)}: {why}"


def _named(each: Owed) -> str:
    return f"{each.what} (run {each.run})"


def _asked(kept: list[Owed]) -> str:
    return f"say whether this is settled, which nothing has proven: {'; '.join(map(_named, kept))}"
