"""Watches the clients come to the target, go on there, and leave the source."""

import uuid

from drctl.engine.arrivals import (
    Left,
    Standing,
    absent,
    held_back,
    left_behind,
    not_heard,
    standing,
    still_standing,
    undecided,
)
from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.open_target import CANARY_TOPIC
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.plan import Json

_SHOWN = 3
_STAYED = (
    "a group in which somebody still reads on {source} is waited for, then named with client id"
    " and host, and the run ends with exit code 5: restart them, cut their connections, or close"
    " the listener of {source}; drctl resume looks again. Producers without a group are not seen;"
    " a fence that holds refuses them until they are moved"
)
_NOBODY = "no group was seen to be read in before: there is none to wait for"


class VerifyClients(Looking):
    """Groups that were read in on the source are read in on the target, and nowhere else.

    They go on from where they were put, as far as there is something to read; no transaction on
    the target keeps them; and a record that came as clients come can be read there.
    """

    name = "verify-clients"
    traits = Trait.VERIFIES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"see the consumers at work on {settings['target']}"
        proof = "every group that was read in before is read in there, goes on, and has left"
        stayed = _STAYED.format(source=settings["source"])
        return Description(title, f"{proof} {settings['source']}", clients=stayed)

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Whom to wait for, and where they stand now.

        Raises:
            Unreachable: the target did not answer.
        """
        source, target = settings["source"], settings["target"]
        names = facts.get("take-stock", {}).get("active_groups", {}).get(source, [])
        return {
            "source": source,
            "target": target,
            "groups": names,
            "stood": standing(target, names, look),
            "undecided": undecided(target, look),
            "entrances": list(settings.get("entrances", ())),
            "text": uuid.uuid4().hex,
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Write a record by each entrance that is known, as a client would."""
        complaints = []
        for number in intent["entrances"]:
            try:
                canary = hands.canary(intent["target"], number)
                canary.sing(CANARY_TOPIC, canary_text(intent, number))
            except DrctlError as error:
                complaints.append(f"endpoint {number + 1}: {error.message}")
        return tuple(complaints)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Who has not come, does not go on, or has stayed."""
        # Journals of drctl before 0.7 know the target and the groups only.
        target, names = intent["target"], tuple(intent["groups"])
        late = absent(target, names, look)
        come = tuple(name for name in names if name not in late)
        now = standing(target, come, look)
        stood: Standing = intent.get("stood", now)
        slow = still_standing(target, now, stood, look) if "stood" in intent else ()
        held = held_back(target, intent.get("undecided", {}), look)
        unheard = tuple(
            number
            for number in intent.get("entrances", ())
            if not look.heard(target, CANARY_TOPIC, canary_text(intent, number))
        )
        stayed, unseen = _left(intent, look)
        missing = (*not_heard(unheard, target), *late.values(), *slow, *held, *stayed)
        moved = sum(now[name] != stood.get(name) for name in now)
        facts = {
            "groups": len(names),
            "moved": moved,
            "entrances": len(intent.get("entrances", ())),
            "not_seen": unseen,
        }
        if missing:
            told = _told(len(late), len(names), missing)
            return Seen(State.WAITING, told, facts, missing)
        return Seen(State.DONE, _done(intent, facts), facts)


def canary_text(intent: Json, number: int) -> str:
    """What is sung at an entrance."""
    return f"{intent['text']}-{number + 1}"


def _left(intent: Json, look: Look) -> tuple[tuple[str, ...], str]:
    """Who has stayed on the source; and why that cannot be seen, of all groups or of some."""
    source = intent.get("source")
    if source is None:
        return (), ""
    try:
        found = left_behind(source, intent["groups"], look)
    except Unreachable as silent:
        found = Left((), (silent.message,))
    unseen = f"who has stayed on {source}: {_several(found.unseen)}" if found.unseen else ""
    return found.stayed, unseen


def _several(reasons: tuple[str, ...]) -> str:
    more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
    return "; ".join(reasons[:_SHOWN]) + more


def _told(late: int, groups: int, missing: tuple[str, ...]) -> str:
    if late:
        return f"{late} of {groups} groups have not come yet: {'; '.join(missing[:_SHOWN])}"
    found = "1 thing is" if len(missing) == 1 else f"{len(missing)} things are"
    return f"{found} not as wanted: {'; '.join(missing[:_SHOWN])}"


def _done(intent: Json, facts: Json) -> str:
    told = _NOBODY
    if facts["groups"]:
        told = f"all {facts['groups']} groups are read in on {intent['target']}"
        told += f", {facts['moved']} of them have gone on" if "stood" in intent else ""
    if facts["entrances"]:
        ways = "1 endpoint" if facts["entrances"] == 1 else f"{facts['entrances']} endpoints"
        told += f"; a record that was written by {ways} is there"
    if facts["not_seen"]:
        return f"{told}; not seen: {facts['not_seen']}"
    return f"{told}; nobody reads on {intent['source']}" if "source" in intent else told
