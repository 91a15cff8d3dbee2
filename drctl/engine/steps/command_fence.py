"""A command of the site keeps producers away; drctl looks whether anything is still written."""

from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Seen, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.command import Command
from drctl.engine.steps.stillness import still
from drctl.model.plan import Json


@dataclass(frozen=True, slots=True)
class CommandFence(Command):
    """The command's own proof, and end offsets that do not move: neither alone is a fence."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        told = Command.describe(self, settings)
        title = f"fence {settings['cluster']}: {told.title}"
        return Description(title, f"{told.proof}, and end offsets do not move", told.way_back)

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Whether it is so already, and which topics must not grow."""
        return {
            **Command.check(self, settings, facts, look),
            "cluster": settings["cluster"],
            "topics": list(look.topics()),
            "settle_seconds": settings["settle_seconds"],
        }

    def verify(self, intent: Json, look: Look) -> Seen:
        """What the command says, and what grows."""
        held = Command.verify(self, intent, look)
        return still(intent["cluster"], intent["settle_seconds"], intent["topics"], look, held)


COMMAND_FENCE = CommandFence("command-fence", Trait.CHANGES | Trait.FENCES_WRITES)
