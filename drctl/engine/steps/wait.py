"""Waits until something is so; what can be waited for stands in `drctl.engine.conditions`."""

from drctl.engine.conditions import CONDITIONS
from drctl.engine.kind import Description, Facts, Looking, Seen, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json


class Wait(Looking):
    """Looks again and again, for as long as the step's patience lasts."""

    name = "wait"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        condition = CONDITIONS[settings["for"]]
        return Description(f"wait until {condition.about(settings)}", "it was seen to be so")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing has to be decided."""
        return dict(settings)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether it is so now."""
        return CONDITIONS[intent["for"]].sight(intent, look)
