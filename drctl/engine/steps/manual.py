"""What a person does, and says that it is done; the answer stands in the journal."""

from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json

PROOF = "a person says that it is done"


@dataclass(frozen=True, slots=True)
class Manual(Looking):
    """Asks; drctl itself does nothing, and takes nothing back."""

    name: str
    traits: Trait

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(one_line(settings["text"]), settings.get("expect") or PROOF)

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing has to be decided."""
        return {"question": settings["question"], "text": one_line(settings["text"])}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What the person says."""
        return answered(intent["question"], intent["text"], look)


def answered(question: str, text: str, look: Look) -> Seen:
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
