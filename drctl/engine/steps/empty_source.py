"""A person empties a cluster that has lost records, so that all of them can be copied to it anew.

drctl deletes no topic: it says which, and looks at what is left.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from drctl.engine.brought import brought_by
from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.source_offsets import copies_of, logs_of
from drctl.engine.steps.manual import answered, one_line
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.model.topology import TopicPartition, TopicState

_SHOWN = 3
_WHY = "what a person has emptied stays so; the survivor has all that was decided on"


class EmptySource:
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

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """What is there now.

        Raises:
            Refused: there is something, and nobody was to be asked.
            Unreachable: a cluster did not answer.
        """
        cluster = settings["cluster"]
        topics = sorted({*copies_of(look), *look.other_way().topics()})
        logs = logs_of(look.site(cluster), topics)
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
        if held and _begun(settings, facts, look):
            return {**found, "begun": True}
        ids = _ids(look, cluster, {place.topic for place in held})
        found["held"] = [
            [p.topic, p.partition, end, ids[p.topic]] for p, end in sorted(held.items())
        ]
        if "question" not in settings and (left := tuple(_left(found, look))):
            raise Refused(
                f"there was nothing to empty when the plan was made: {'; '.join(left[:_SHOWN])}",
                "make the plan anew",
            )
        return found

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """The person does it."""
        return ()

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether what was there is gone; a word that it is does not do."""
        left = tuple(_left(intent, look))
        facts = {"begun": intent["begun"]}
        if not left and intent["begun"]:
            words = f"{intent['cluster']} holds what this way home has brought, and no more"
            return Seen(State.DONE, words, facts)
        if not left:
            held = f"what {len(intent['held'])} partitions held is gone"
            words = held if intent["held"] else "there is nothing that was there before"
            return Seen(State.DONE, f"{intent['cluster']}: {words}", facts)
        said = answered(intent["question"], intent["text"], look)
        if said.state is not State.DONE:
            return said
        return Seen(State.WAITING, f"still there: {'; '.join(left[:_SHOWN])}", {}, left)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: it stays."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """That it stays."""
        return Seen(State.DONE, _WHY, {"stays": self.name} if intent["held"] else {})


def _begun(settings: Json, facts: Facts, look: Look) -> bool:
    """Whether all that is there was brought by this way home, and nobody else has written to it."""
    connector, search = settings.get("connector"), facts.get("find-missing", {})
    if not connector or search.get("unreplicated") or search.get("aside"):
        return False
    return brought_by(connector, settings["survivor"], settings["cluster"], look)


def _left(intent: Json, look: Look) -> Iterator[str]:
    """What was there and is not gone; and partitions to which nothing is ever copied."""
    cluster = intent["cluster"]
    logs = logs_of(look.site(cluster), intent["topics"])
    ids = _ids(look, cluster, {topic for topic, *_ in intent["held"]})
    for topic, number, end, before in intent["held"]:
        log = logs.get(TopicPartition(topic, number))
        made_anew = bool(before) and ids.get(topic, "") != before
        if log is None or made_anew or log.log_start >= min(end, log.end):
            continue
        yield f"{topic}-{number} holds records from offset {log.log_start} on"
    yield from misshapen(intent["survivor"], cluster, look)


def misshapen(survivor: str, home: str, look: Look) -> Iterator[str]:
    """Topics to which records would not come as they stand on the survivor."""
    there, here = look.site(survivor).overview().partitions, look.site(home).overview().partitions
    for topic in look.topics():
        copy, wanted = look.target_topic(topic), len(there.get(topic, ()))
        number = len(here.get(copy, ()))
        if number > wanted:
            yield f"{copy} has {number} partitions, and its copies come to {wanted}: delete it"
        elif copy != topic and number < wanted:
            # MirrorMaker 2 makes the topics that its policy names, and these it names otherwise.
            yield f"{copy} has {number} partitions: nothing makes it anew, create it with {wanted}"


def _ids(look: Look, cluster: str, topics: set[str]) -> Mapping[str, str]:
    """Kafka's ids of topics; empty where it tells none."""
    found = look.site(cluster).topics(sorted(topics)) if topics else {}
    return {
        topic: state.topic_id if isinstance(state, TopicState) else ""
        for topic, state in found.items()
    }
