"""Waits until replication is close behind, while its source still takes writes."""

from collections.abc import Iterator, Sequence

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.stop_replication import RUNNING
from drctl.model.errors import DrctlError
from drctl.model.plan import Json


def _halted(names: Sequence[str], look: Look) -> Iterator[str]:
    """What brings nothing any more, and why: to wait for it is in vain."""
    for name in names:
        try:
            state = look.connectors().state(name)
        except DrctlError as error:
            yield f"{name} was not asked: {error.message}"
            continue
        if state.state != RUNNING:
            yield state.told


class CaughtUp(Looking):
    """By content: offsets of a connector that leaves records out tell less."""

    name = "caught-up"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"wait until {settings['target']} has what {settings['source']} has"
        what = "a comparison of everything" if settings["scope"] == "full" else "a comparison"
        return Description(title, f"{what} finds {settings['at_most']:,} missing at most")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Nothing has to be decided."""
        known = {"scope": settings["scope"], "at_most": settings["at_most"]}
        return {**known, "connectors": settings.get("connectors", [])}

    def verify(self, intent: Json, look: Look) -> Seen:
        """What is missing now."""
        missing = look.compared(intent["scope"])
        if missing.not_compared:
            words = f"not everything could be compared: {missing.not_compared[0]}"
            return Seen(State.WAITING, words, {}, missing.not_compared)
        words = f"{missing.records:,} records are still on their way"
        if missing.records > intent["at_most"]:
            halted = tuple(_halted(intent.get("connectors", ()), look))
            return Seen(State.WAITING, "; ".join((words, *halted)), {}, missing.partitions)
        return Seen(State.DONE, words)
