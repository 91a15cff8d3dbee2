"""Watches the consumers come to the target and go on there."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.plan import Json
from drctl.model.topology import Unavailable


class VerifyClients(Looking):
    """Groups that were read in on the source are read in on the target."""

    name = "verify-clients"
    traits = Trait.VERIFIES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"see the consumers at work on {settings['target']}"
        return Description(title, "every group that was read in before is read in there")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Whom to wait for."""
        active = facts.get("take-stock", {}).get("active_groups", {})
        return {"target": settings["target"], "groups": active.get(settings["source"], [])}

    def verify(self, intent: Json, look: Look) -> Seen:
        """Who has come."""
        names = tuple(intent["groups"])
        if not names:
            words = "no group was seen to be read in before: there is none to wait for"
            return Seen(State.DONE, words, {"groups": 0})
        described = look.groups(intent["target"]).described(names)
        absent = tuple(
            name
            for name in names
            if isinstance(found := described[name], Unavailable) or not found.active
        )
        if absent:
            words = f"{len(absent)} of {len(names)} groups have not come yet: {absent[0]}"
            return Seen(State.WAITING, words, {}, absent)
        words = f"all {len(names)} groups are read in on {intent['target']}"
        return Seen(State.DONE, words, {"groups": len(names)})
