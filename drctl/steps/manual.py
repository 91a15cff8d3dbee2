"""What a person does, and says that it is done; the answer stands in the journal."""

from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.plan import Json

PROOF = "a person says that it is done"


@dataclass(frozen=True, slots=True)
class Manual(Polling):
    """Asks; drctl itself does nothing, and takes nothing back."""

    name: str
    traits: Trait

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(one_line(settings["text"]), settings.get("expect") or PROOF)

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """Nothing has to be decided."""
        return {"question": settings["question"], "text": one_line(settings["text"])}

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """What the person says."""
        return answered(intent["question"], intent["text"], look)


def answered(question: str, text: str, look: LinkReader) -> Seen:
    """What a person says; nobody there is as good as no."""
    answer = look.answer(question, text)
    if answer is None:
        words = f"not answered: {text}: answer on a terminal, or with --answer {question}=yes"
        return Seen(State.FAILED, words)
    if not answer:
        return Seen(State.FAILED, f"a person says no: {text}", {"answer": "no"})
    return Seen(State.DONE, f"a person says that it is done: {text}", {"answer": "yes"})


def one_line(text: str) -> str:
    """A text of several lines as one, for titles and questions."""
    return " ".join(str(text).split())


MANUAL = Manual("manual", Trait.NONE)
MANUAL_CHECK = Manual("manual-check", Trait.JUDGES)


BACK = ".undo"
"""Behind the id of a step: the question whether it was taken back."""


@dataclass(frozen=True, slots=True)
class ManualChange:
    """Asks whether it is done; and, where the run turns back, whether it was taken back."""

    name: str
    traits: Trait

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        proof = settings.get("expect") or PROOF
        return Description(one_line(settings["text"]), proof, one_line(settings["undo"]))

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """Nothing has to be decided."""
        return {
            "question": settings["question"],
            "text": one_line(settings["text"]),
            "undo": one_line(settings["undo"]),
        }

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """The person does it."""
        return ()

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """What the person says."""
        return answered(intent["question"], intent["text"], look)

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """The person does it."""
        return ()

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """What the person says; where there is no way back, that it stays."""
        if not intent["undo"]:
            return Seen(State.FAILED, f"there is no way back from: {intent['text']}")
        return answered(intent["question"] + BACK, intent["undo"], look)


MANUAL_CHANGE = ManualChange("manual-change", Trait.CHANGES)
MANUAL_STOP_REPLICATION = ManualChange(
    "manual-stop-replication", Trait.CHANGES | Trait.STOPS_REPLICATION
)
MANUAL_RECONCILE = ManualChange("manual-reconcile", Trait.CHANGES | Trait.RECONCILES)


_SHOWN = 5


def still(cluster: str, settle_s: float, topics: list[str], look: LinkReader, held: Seen) -> Seen:
    """The proof of the fence itself, and that the end offsets do not move."""
    if held.state is not State.DONE:
        return held
    # Brokers are asked for no rule: what fences here is not known to them.
    found = look.fence(cluster, settle_s).prove((), topics).stillness
    ends = {str(place): end for place, end in sorted(found.ends.items())}
    facts: Json = {**held.facts, "ends": ends}
    if not found.proven:
        return Seen(State.WAITING, "; ".join(found.doubts[:_SHOWN]), facts, found.doubts)
    words = f"{held.words}; the ends of {len(ends)} partitions stood still for {settle_s:g} s"
    return Seen(State.DONE, words, facts)


@dataclass(frozen=True, slots=True)
class ManualFence(ManualChange):
    """A word, and end offsets that do not move: neither alone is a fence."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        proof = "a person says that it is done, and end offsets do not move"
        return Description(one_line(settings["text"]), proof, one_line(settings["undo"]))

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """Which topics must not grow."""
        return {
            **ManualChange.check(self, settings, facts, look),
            "cluster": settings["cluster"],
            "topics": list(look.topics()),
            "settle_seconds": settings["settle_seconds"],
        }

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """What the person says, and what grows."""
        held = ManualChange.verify(self, intent, look)
        return still(intent["cluster"], intent["settle_seconds"], intent["topics"], look, held)


MANUAL_FENCE = ManualFence("manual-fence", Trait.CHANGES | Trait.FENCES_WRITES)
