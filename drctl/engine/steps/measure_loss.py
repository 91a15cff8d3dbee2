"""Says what is probably lost, before anything is done about it."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.stop_replication import halted
from drctl.model.plan import Json


class MeasureLoss(Looking):
    """From what survived: how far it was copied, until when, and what was seen of the source."""

    name = "measure-loss"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"estimate what {settings['target']} lacks of {settings['source']}"
        return Description(title, "records and seconds, with what makes them uncertain")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Of which topics, for whoever compares them once the source is back."""
        return {"topics": list(look.topics()), "halted": halted(facts)}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What survived says."""
        loss = look.loss(halted=intent.get("halted"))
        facts = {name: told for name, told in loss.to_json().items() if name != "words"}
        return Seen(State.DONE, loss.words, facts)
