"""What a person changes outside, where drctl cannot; taken back by a person, too.

The traits say what the change is for, so that the rules of order hold for it as for drctl's own.
"""

from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.manual import PROOF, answered, one_line
from drctl.model.plan import Json

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

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing has to be decided."""
        return {
            "question": settings["question"],
            "text": one_line(settings["text"]),
            "undo": one_line(settings["undo"]),
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """The person does it."""
        return ()

    def verify(self, intent: Json, look: Look) -> Seen:
        """What the person says."""
        return answered(intent["question"], intent["text"], look)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """The person does it."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """What the person says; where there is no way back, that it stays."""
        if not intent["undo"]:
            return Seen(State.FAILED, f"there is no way back from: {intent['text']}")
        return answered(intent["question"] + BACK, intent["undo"], look)


MANUAL_CHANGE = ManualChange("manual-change", Trait.CHANGES)
MANUAL_STOP_REPLICATION = ManualChange(
    "manual-stop-replication", Trait.CHANGES | Trait.STOPS_REPLICATION
)
MANUAL_RECONCILE = ManualChange("manual-reconcile", Trait.CHANGES | Trait.RECONCILES)
