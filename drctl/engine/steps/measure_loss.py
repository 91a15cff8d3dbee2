"""Says what is probably lost, before anything is done about it."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json


class MeasureLoss(Looking):
    """From what survived: the newest copies, and how fast they came."""

    name = "measure-loss"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"estimate what {settings['target']} lacks of {settings['source']}"
        return Description(title, "records and seconds, with what makes them uncertain")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing has to be decided."""
        return {}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What survived says."""
        loss = look.loss()
        return Seen(State.DONE, loss.words, {"records": loss.records, "seconds": loss.seconds})
