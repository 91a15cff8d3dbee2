"""Lets connectors copy, and looks at what comes first: a new record, or one that was there."""

from drctl.engine.first_records import first_new_records, first_records, same_record
from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.returning import offsets_of
from drctl.engine.steps.stop_replication import RUNNING, STOPPED
from drctl.model.errors import DrctlError
from drctl.model.plan import Json
from drctl.model.ports import ClusterReader
from drctl.model.topology import PartitionOffsets, TopicPartition

_SHOWN = 3


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
            UsageError: there is no such connector.
            Unreachable: no worker answered.
        """
        names, connectors = settings["connectors"], look.connectors()
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
        states = {name: connectors.state(name).state for name in intent["before"]}
        others = tuple(f"{name} is {state}" for name, state in states.items() if state != RUNNING)
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        return _arrived(intent, look)

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


def _arrived(intent: Json, look: Look) -> Seen:
    """The first record that travels, and the first that came, of each partition."""
    start, ends = offsets_of(intent["from"]), offsets_of(intent["ends"])
    target = look.site(intent["target"])
    copies = {p: TopicPartition(look.target_topic(p.topic), p.partition) for p in start}
    there = target.overview().partitions
    since = {
        copy: ends.get(copy, 0) for copy in copies.values() if copy[1] in there.get(copy[0], ())
    }
    # What came is looked at first: what is written meanwhile is then no stranger.
    came = first_records(target, since)
    source, whole = look.site(intent["source"]), intent.get("whole", False)
    travels = first_records(source, start) if whole else first_new_records(source, start)
    wrong, awaited = [], []
    for place, copy in copies.items():
        if copy in came and not (place in travels and same_record(travels[place], came[copy])):
            if whole and _cut_since(source, place, start[place]):
                continue
            wrong.append(f"{copy} offset {came[copy].offset}")
        elif place in travels and copy not in came:
            awaited.append(str(place))
    if wrong:
        words = (
            f"what came first to {', '.join(wrong[:_SHOWN])} of {intent['target']} is not the"
            f" first new record of {intent['source']}: it would be copied twice"
        )
        return Seen(State.FAILED, words, {}, tuple(wrong))
    if awaited:
        words = f"the first new record of {len(awaited)} partitions has not come yet: {awaited[0]}"
        return Seen(State.WAITING, words, {}, tuple(awaited))
    return Seen(State.DONE, _told(len(travels), intent))


def _cut_since(source: ClusterReader, place: TopicPartition, start: int) -> bool:
    """Whether the oldest records were deleted meanwhile: then nothing tells which came first."""
    log = source.offsets([place])[place]
    return isinstance(log, PartitionOffsets) and log.log_start > start


def _told(number: int, intent: Json) -> str:
    if not number:
        return f"it runs; {intent['source']} has nothing new yet"
    if intent.get("whole"):
        return f"what came first to {number} partitions is the first record of each"
    return f"what came first to {number} partitions is the first new record of each; no old one"
