"""Records of the source that the old replication has copied behind new ones of the target.

What is new there cannot be told by its place any more: from whatever boundary on, either something
new stays away, or something old comes to the source a second time.
"""

from drctl.checks.check import listed
from drctl.failback.situation import Situation
from drctl.model.text import quote
from drctl.steps.failback import WHOLE


def stand_behind(seen: Situation) -> str:
    """What was seen, in words."""
    facts = seen.facts
    return (
        f"records of {facts.source} stand behind new ones of {facts.target}"
        f" ({listed(seen.stand_behind)}): the old replication ran while applications wrote there,"
        " or has copied what they had aborted; what is new cannot be told by its place"
    )


def anew(link: str) -> str:
    """The way home that needs no boundary: the source gets everything, in the target's order."""
    return f"drctl failback --link {quote(link)} --rebuild --override {WHOLE}=REASON"
