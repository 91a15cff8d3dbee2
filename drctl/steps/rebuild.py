"""Rebuilds a cluster that has lost records: a person empties it, and everything is copied again.

drctl deletes no topic: it says which, and looks at what is left.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from drctl.engine.failback_state import drops_copies, offsets_of, rows
from drctl.engine.kind import Description, Facts, Permanent, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.model.text import put
from drctl.model.topology import TopicPartition, TopicState
from drctl.steps.first_records import brought_by
from drctl.steps.manual import answered, one_line
from drctl.steps.source_offsets import (
    ALIAS,
    alter,
    copies_of,
    kept_offsets,
    lines_of,
    log_ends,
    logs_of,
)
from drctl.steps.stop_replication import STOPPED

_SHOWN = 3
_WHY = "what a person has emptied stays so; the survivor has all that was decided on"


class EmptySource(Polling):
    """Asks where something is there; what was there must be gone, whatever comes afterwards."""

    name = "empty-source"
    traits = Trait.CHANGES | Trait.EMPTIES | Trait.OTHER_WAY | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        cluster = settings["cluster"]
        title = f"see that the link's topics on {cluster} are empty"
        if "question" in settings:
            title = one_line(settings["text"])
        proof = f"no record is left of what {cluster} held, and no partition too many"
        return Description(title, proof, f"none: {_WHY}")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """What is there now.

        Raises:
            Refused: there is something, although the plan found it empty.
            Unreachable: a cluster did not answer.
        """
        cluster = settings["cluster"]
        topics = sorted({*copies_of(reader), *reader.other_way().topics()})
        logs = logs_of(reader.site(cluster), topics)
        held = {place: log.end for place, log in logs.items() if log.log_start < log.end}
        found: dict[str, Any] = {
            "cluster": cluster,
            "question": settings.get("question", ""),
            "text": one_line(settings.get("text", "")),
            "topics": topics,
            "held": [],
            "begun": False,
            "survivor": settings["survivor"],
        }
        if held and _begun(settings, facts, reader):
            return {**found, "begun": True}
        ids = _ids(reader, cluster, {place.topic for place in held})
        found["held"] = [
            [p.topic, p.partition, end, ids[p.topic]] for p, end in sorted(held.items())
        ]
        if "question" not in settings and (left := tuple(_left(found, reader))):
            raise Refused(
                f"there was nothing to empty when the plan was made: {'; '.join(left[:_SHOWN])}",
                "make the plan anew",
            )
        return found

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether what was there is gone; a word that it is does not do."""
        left = tuple(_left(intent, reader))
        facts = {"begun": intent["begun"]}
        if not left and intent["begun"]:
            words = f"{intent['cluster']} holds what this way home has brought, and no more"
            return Seen(State.DONE, words, facts)
        if not left:
            held = f"what {len(intent['held'])} partitions held is gone"
            words = held if intent["held"] else "there is nothing that was there before"
            return Seen(State.DONE, f"{intent['cluster']}: {words}", facts)
        said = answered(intent["question"], intent["text"], reader)
        if said.state is not State.DONE:
            return said
        return Seen(State.WAITING, f"still there: {'; '.join(left[:_SHOWN])}", {}, left)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """That it stays."""
        return Seen(State.DONE, _WHY, stays=bool(intent["held"]))


def _begun(settings: Json, facts: Facts, reader: LinkReader) -> bool:
    """Whether all that is there was replicated by this failback, and nothing else wrote to it."""
    connector, search = settings.get("connector"), facts.get("find-missing", {})
    if not connector or search.get("unreplicated") or search.get("aside"):
        return False
    return brought_by(connector, settings["survivor"], settings["cluster"], reader)


def _left(intent: Json, reader: LinkReader) -> Iterator[str]:
    """What was there and is not gone; and partitions to which nothing is ever copied."""
    cluster = intent["cluster"]
    logs = logs_of(reader.site(cluster), intent["topics"])
    ids = _ids(reader, cluster, {topic for topic, *_ in intent["held"]})
    for topic, number, end, before in intent["held"]:
        log = logs.get(TopicPartition(topic, number))
        recreated = bool(before) and ids.get(topic, "") != before
        if log is None or recreated or log.log_start >= min(end, log.end):
            continue
        yield f"{topic}-{number} holds records from offset {log.log_start} on"
    yield from misshapen(intent["survivor"], cluster, reader)


def misshapen(survivor: str, home: str, reader: LinkReader) -> Iterator[str]:
    """Topics to which records would not be copied as they are on the surviving cluster."""
    there, here = (
        reader.site(survivor).overview().partitions,
        reader.site(home).overview().partitions,
    )
    for topic in reader.topics():
        copy, wanted = reader.target_topic(topic), len(there.get(topic, ()))
        number = len(here.get(copy, ()))
        if number > wanted:
            yield f"{copy} has {number} partitions, and its copies come to {wanted}: delete it"
        elif copy != topic and number < wanted:
            # MirrorMaker 2 makes the topics that its policy names, and these it names otherwise.
            yield f"{copy} has {number} partitions: nothing makes it anew, create it with {wanted}"


def _ids(reader: LinkReader, cluster: str, topics: set[str]) -> Mapping[str, str]:
    """Kafka's ids of topics; empty where it tells none."""
    found = reader.site(cluster).topics(sorted(topics)) if topics else {}
    return {
        topic: state.topic_id if isinstance(state, TopicState) else ""
        for topic, state in found.items()
    }


_STAYS = "what it kept was about what was there before; without it, it copies everything"


class SeedFromStart(Permanent):
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

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """What it keeps, and where both sides stand.

        Raises:
            Refused: it is not stopped, or would leave records out.
            UsageError: there is no such connector.
            Unreachable: a cluster, or every worker, did not answer.
        """
        name, connectors = settings["connector"], reader.connectors()
        copies, survivor = copies_of(reader), reader.site(settings["source"])
        start = {place: log.log_start for place, log in logs_of(survivor, reader.topics()).items()}
        found = {"connector": name, "target": settings["target"], "from": rows(start)}
        at_home = logs_of(reader.site(settings["target"]), copies)
        if facts.get("empty-source", {}).get("begun"):
            # What has begun there resumes from where it is.
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

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Take them away."""
        return alter(intent, "wanted", writer)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether it keeps none; where something came since, it has resumed."""
        name = intent["connector"]
        facts = {"from": intent["from"], "ends": intent["ends"], "whole": True}
        if not intent["wanted"]:
            words = f"nothing has to be set: {name} goes on from where it came to"
            return Seen(State.DONE, words, facts)
        kept = kept_offsets(name, reader.connectors().offsets(name))
        held = {place: at for place, at in kept.items() if place in offsets_of(intent["from"])}
        others = tuple(_not_taken_away(name, held, intent, reader)) if held else ()
        if others:
            words = f"{len(others)} offsets are still there: {'; '.join(others[:_SHOWN])}"
            return Seen(State.WAITING, words, {}, others)
        return Seen(State.DONE, f"{name} begins at the beginning", facts)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """That it stays."""
        return Seen(State.DONE, _STAYS, stays=True)


def _not_taken_away(
    name: str, kept: dict[TopicPartition, int], intent: Json, reader: LinkReader
) -> Iterator[str]:
    """Offsets of partitions to which nothing has come since; the target is closed to all others."""
    ends, now = (
        offsets_of(intent["ends"]),
        log_ends(reader.site(intent["target"]), copies_of(reader)),
    )
    for place, at in sorted(kept.items()):
        copy = TopicPartition(reader.target_topic(place.topic), place.partition)
        if now.get(copy, 0) <= ends.get(copy, 0):
            yield f"{place}: {name} keeps {at}"
