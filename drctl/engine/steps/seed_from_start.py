"""Has a stopped connector begin at the beginning: its target was emptied, and gets everything.

What it keeps of how far it got is about what was there before, and would leave that out.
"""

from collections.abc import Iterator

from drctl.engine.copies_filter import drops_copies
from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.returning import offsets_of, rows
from drctl.engine.source_offsets import (
    ALIAS,
    alter,
    copies_of,
    kept_offsets,
    lines_of,
    log_ends,
    logs_of,
)
from drctl.engine.steps.stop_replication import STOPPED
from drctl.model.errors import Refused
from drctl.model.pasting import put
from drctl.model.plan import Json
from drctl.model.topology import TopicPartition

_SHOWN = 3
_STAYS = "what it kept was about what was there before; without it, it copies everything"


class SeedFromStart:
    """Takes its source offsets away through Connect, and reads that back."""

    name = "seed-from-start"
    traits = Trait.CHANGES | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"let connector {settings['connector']} begin at the first record that"
            f" {settings['source']} has, in each partition",
            "Connect keeps no offsets of it, and it is STOPPED",
            f"none: {_STAYS}",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """What it keeps, and where both sides stand.

        Raises:
            Refused: it is not stopped, or would leave records out.
            UsageError: there is no such connector.
            Unreachable: a cluster, or every worker, did not answer.
        """
        name, connectors = settings["connector"], look.connectors()
        copies, survivor = copies_of(look), look.site(settings["source"])
        start = {place: log.log_start for place, log in logs_of(survivor, look.topics()).items()}
        found = {"connector": name, "target": settings["target"], "from": rows(start)}
        at_home = logs_of(look.site(settings["target"]), copies)
        if facts.get("empty-source", {}).get("begun"):
            # What has begun there goes on from where it came to.
            begins = {place: log.log_start for place, log in at_home.items()}
            return {**found, "alias": "", "wanted": [], "before": [], "ends": rows(begins)}
        state, config = connectors.state(name).state, connectors.config(name)
        if state != STOPPED:
            raise Refused(
                f"connector {name} is {state}: where it begins can be set only while it is stopped",
                f"stop it: {put('', name, 'stop')}",
            )
        if drops_copies(config):
            raise Refused(
                f"connector {name} leaves out what drctl has copied: nothing of that would come"
                " back to a cluster that was emptied",
                "take the filter out of its `transforms` until it has copied everything",
            )
        kept = kept_offsets(name, connectors.offsets(name))
        return {
            **found,
            "alias": config.get(ALIAS, "source"),
            "wanted": lines_of(dict.fromkeys(start)),
            "before": lines_of({place: kept.get(place) for place in start}),
            "ends": rows({place: log.end for place, log in at_home.items()}),
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Take them away."""
        return alter(intent, "wanted", hands)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether it keeps none; where something has come since, that it has gone on."""
        name = intent["connector"]
        facts = {"from": intent["from"], "ends": intent["ends"], "whole": True}
        if not intent["wanted"]:
            words = f"nothing has to be set: {name} goes on from where it came to"
            return Seen(State.DONE, words, facts)
        kept = kept_offsets(name, look.connectors().offsets(name))
        held = {place: at for place, at in kept.items() if place in offsets_of(intent["from"])}
        others = tuple(_left(name, held, intent, look)) if held else ()
        if others:
            words = f"{len(others)} offsets are still there: {'; '.join(others[:_SHOWN])}"
            return Seen(State.WAITING, words, {}, others)
        return Seen(State.DONE, f"{name} begins at the beginning", facts)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: it stays."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """That it stays."""
        return Seen(State.DONE, _STAYS, {"stays": self.name})


def _left(name: str, kept: dict[TopicPartition, int], intent: Json, look: Look) -> Iterator[str]:
    """Offsets of partitions to which nothing has come since; the target is closed to all others."""
    ends, now = offsets_of(intent["ends"]), log_ends(look.site(intent["target"]), copies_of(look))
    for place, at in sorted(kept.items()):
        copy = TopicPartition(look.target_topic(place.topic), place.partition)
        if now.get(copy, 0) <= ends.get(copy, 0):
            yield f"{place}: {name} keeps {at}"
