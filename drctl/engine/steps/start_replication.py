"""Lets connectors copy, and looks at what comes first: a new record, or one that was there."""

from drctl.engine.first_arrivals import first_arrivals
from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.stop_replication import RUNNING, STOPPED
from drctl.engine.writing_home import must_write_to
from drctl.model.errors import DrctlError
from drctl.model.plan import Json

BRINGS_HOME = ("seed-replication", "seed-from-start")
"""What tells connectors where to begin that have perhaps never run in this direction."""


class StartReplication:
    """Goes on from the offsets that were set before; the first arrival of each partition tells."""

    name = "start-replication"
    traits = Trait.CHANGES | Trait.STARTS_REPLICATION

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        names, source, target = settings["connectors"], settings["source"], settings["target"]
        return Description(
            f"start replication from {source} to {target}: connectors {', '.join(names)}",
            f"they are RUNNING, and what comes first to {target} is the first new record",
            "stop them: what came stays, and how far they got is kept",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Where it begins.

        Raises:
            Refused: one of them would write to another cluster.
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        names, connectors = settings["connectors"], look.connectors()
        if settings["seeded_by"] in BRINGS_HOME and not settings.get("writes_passed"):
            must_write_to(settings["target"], names, look)
        seeded = facts[settings["seeded_by"]]
        return {
            "before": {name: connectors.state(name).state for name in names},
            "source": settings["source"],
            "target": settings["target"],
            "from": seeded["from"],
            "ends": seeded["ends"],
            "whole": seeded.get("whole", False),
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Let them go on."""
        complaints, connectors = [], hands.connectors()
        for name in intent["before"]:
            try:
                connectors.resume(name)
            except DrctlError as error:
                complaints.append(f"{name}: {error.message}")
        return tuple(complaints)

    def verify(self, intent: Json, look: Look) -> Seen:
        """How they stand, and what came first."""
        connectors = look.connectors()
        states = [connectors.state(name) for name in intent["before"]]
        others = tuple(each.told for each in states if each.state != RUNNING)
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        return first_arrivals(intent, look)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Stop those that did not run."""
        complaints, connectors = [], hands.connectors()
        for name, before in intent["before"].items():
            if before == RUNNING:
                continue
            try:
                connectors.stop(name)
            except DrctlError as error:
                complaints.append(f"{name}: {error.message}")
        return tuple(complaints)

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether they are stopped again."""
        connectors = look.connectors()
        others = tuple(
            f"{name} is {state}"
            for name, before in intent["before"].items()
            if before != RUNNING and (state := connectors.state(name).state) != STOPPED
        )
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        return Seen(State.DONE, "the connectors do not run any more")
