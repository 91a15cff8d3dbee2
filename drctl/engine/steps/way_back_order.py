"""Judges whether a way back may begin, or go on: what is out of order, and what is lost."""

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.errors import Refused
from drctl.model.finding import Status
from drctl.model.plan import Json

ASKED_FOR = "way-back"
"""The mode in which guards speak of a way back."""

REBUILDING = "rebuild"
"""The mode in which they speak of one on which the returned cluster is filled anew."""

STEP_ORDER = "step-order"
"""The guard that stands against a way back on which something happened before its time."""

WHOLE = "source-whole"
"""The one that stands against filling a cluster anew that has lost nothing."""

CYCLES = "cycles"
"""The one that stands against any plan while records go round between both clusters."""

BROKEN = "source-broken"
"""The one that stands against leading clients to a cluster that takes no records."""

BOTH_WAYS = "replicator-both-ways"
"""The one that stands against two Replicators that copy again what one of them has copied."""

PRODUCERS = "producer-ids-collide"
"""The one that stands against leading producers to where others of their id are remembered."""

WRITES = "reverse-writes"
"""The one that stands against a connector that does not write to the cluster it copies to."""

PASSED = (STEP_ORDER, WHOLE, CYCLES, BROKEN, BOTH_WAYS, PRODUCERS, WRITES)
"""Those that may be passed over."""


class WayBackOrder(Looking):
    """What can be put right by the steps that follow is no reason to refuse."""

    name = "way-back-order"
    traits = Trait.JUDGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"see how far the way back to {settings['target']} has come, and in which order"
        passed = ", ".join(sorted(settings["overrides"])) or "none"
        lost = "nothing is lost, or"
        if settings.get("mode") == REBUILDING:
            lost = f"{settings['target']} has lost records, and nothing is"
        return Description(title, f"{lost} out of order (passed over: {passed})")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Ask.

        Raises:
            Refused: something stands against it that is not passed over; each is named.
        """
        mode = settings.get("mode", ASKED_FOR)
        found = [each for each in look.findings(mode) if each.status is not Status.OK]
        against = [
            each
            for each in found
            if each.status is Status.FAIL
            and not (each.check in PASSED and each.check in settings["overrides"])
        ]
        if against:
            raise Refused(
                "; ".join(f"{each.subject}: {each.reason}" for each in against),
                "; ".join(dict.fromkeys(each.cure for each in against if each.cure)),
            )
        return {"warnings": [f"{each.check}: {each.subject}: {each.reason}" for each in found]}

    def verify(self, intent: Json, look: Look) -> Seen:
        """They were asked a moment ago."""
        number = len(intent["warnings"])
        return Seen(State.DONE, f"nothing stands against it; {number} to know of", intent)
