"""A person keeps producers away from the source; drctl looks whether anything is still written."""

from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Seen, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.manual import one_line
from drctl.engine.steps.manual_change import ManualChange
from drctl.engine.steps.stillness import still
from drctl.model.plan import Json


@dataclass(frozen=True, slots=True)
class ManualFence(ManualChange):
    """A word, and end offsets that do not move: neither alone is a fence."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        proof = "a person says that it is done, and end offsets do not move"
        return Description(one_line(settings["text"]), proof, one_line(settings["undo"]))

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which topics must not grow."""
        return {
            **ManualChange.check(self, settings, facts, look),
            "cluster": settings["cluster"],
            "topics": list(look.topics()),
            "settle_seconds": settings["settle_seconds"],
        }

    def verify(self, intent: Json, look: Look) -> Seen:
        """What the person says, and what grows."""
        held = ManualChange.verify(self, intent, look)
        return still(intent["cluster"], intent["settle_seconds"], intent["topics"], look, held)


MANUAL_FENCE = ManualFence("manual-fence", Trait.CHANGES | Trait.FENCES_WRITES)
