"""What a person does, and says that it is done; the answer is in the journal."""

from dataclasses import dataclass, replace

from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader
from drctl.model.plan import Json

PROOF = "a person says that it is done"


@dataclass(frozen=True, slots=True)
class Manual(Polling):
    """Asks; drctl itself does nothing, and rolls nothing back."""

    name: str
    traits: Trait

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(one_line(settings["text"]), settings.get("expect") or PROOF)

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Nothing has to be decided."""
        return {"question": settings["question"], "text": one_line(settings["text"])}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What the person says."""
        return answered(intent["question"], intent["text"], reader)


def answered(question: str, text: str, reader: LinkReader) -> Seen:
    """What a person says; no answer counts as no."""
    answer = reader.answer(question, text)
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
"""After the id of a step: the question whether it was rolled back."""


@dataclass(frozen=True, slots=True)
class ManualChange(Manual):
    """Asks whether it is done; and, where the run is rolled back, whether that was undone."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return replace(Manual.describe(self, settings), way_back=one_line(settings["undo"]))

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Nothing has to be decided."""
        return {**Manual.check(self, settings, facts, reader), "undo": one_line(settings["undo"])}

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """What the person says; where nothing undoes it, that it stays."""
        if not intent["undo"]:
            return Seen(State.FAILED, f"there is no way back from: {intent['text']}")
        return answered(intent["question"] + BACK, intent["undo"], reader)


MANUAL_CHANGE = ManualChange("manual-change", Trait.CHANGES)
MANUAL_STOP_REPLICATION = ManualChange(
    "manual-stop-replication", Trait.CHANGES | Trait.STOPS_REPLICATION
)
MANUAL_RECONCILE = ManualChange("manual-reconcile", Trait.CHANGES | Trait.RECONCILES)


_SHOWN = 5


def watched(settings: Json, reader: LinkReader) -> Json:
    """What `still` needs in the intent of a fence: the topics that must not grow."""
    return {
        "cluster": settings["cluster"],
        "topics": list(reader.topics()),
        "settle_seconds": settings["settle_seconds"],
    }


def still(intent: Json, reader: LinkReader, held: Seen) -> Seen:
    """The proof of the fence itself, and that the end offsets do not move."""
    if held.state is not State.DONE:
        return held
    settle_s = intent["settle_seconds"]
    # Brokers are asked for no rule: what fences here is not known to them.
    found = reader.fence(intent["cluster"], settle_s).prove((), intent["topics"]).stillness
    ends = {str(place): end for place, end in sorted(found.ends.items())}
    facts: Json = {**(held.facts or {}), "ends": ends}
    if not found.proven:
        return Seen(State.WAITING, "; ".join(found.doubts[:_SHOWN]), facts, found.doubts)
    words = f"{held.words}; the ends of {len(ends)} partitions stood still for {settle_s:g} s"
    return Seen(State.DONE, words, facts)


@dataclass(frozen=True, slots=True)
class ManualFence(ManualChange):
    """A person's word, and end offsets that do not move: neither alone is a fence."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return replace(
            ManualChange.describe(self, settings), proof=f"{PROOF}, and end offsets do not move"
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Which topics must not grow."""
        return {**ManualChange.check(self, settings, facts, reader), **watched(settings, reader)}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What the person says, and what grows."""
        return still(intent, reader, ManualChange.verify(self, intent, reader))


MANUAL_FENCE = ManualFence("manual-fence", Trait.CHANGES | Trait.FENCES_WRITES)
