"""Gives copies as many partitions as their topics have; none is ever taken away."""

from collections.abc import Iterator

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.shapes import counted, known_shapes, shapes, topics_of
from drctl.model.plan import Json
from drctl.model.repairs import TopicShape


class AddPartitions:
    """A partition that was added stays: Kafka cannot take it away."""

    name = "add-partitions"
    traits = Trait.CHANGES | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"add partitions to {counted(len(settings['changes']), 'topic')} of"
            f" {settings['cluster']}",
            "each has at least as many as on the source",
            "none: Kafka takes no partition away, and an empty one more does no harm",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """How many each has.

        Raises:
            Refused: a topic is not there any more, or cannot be looked at.
            Unreachable: the cluster did not answer.
        """
        cluster, changes = settings["cluster"], settings["changes"]
        known = known_shapes(cluster, topics_of(changes), look)
        return {
            "cluster": cluster,
            "changes": [
                {
                    "topic": each["topic"],
                    "from": known[each["topic"]].partitions,
                    "to": each["to"],
                }
                for each in changes
            ],
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Add them where there are fewer."""
        totals = {e["topic"]: e["to"] for e in intent["changes"] if e["from"] < e["to"]}
        if not totals:
            return ()
        answers = hands.shapes(intent["cluster"]).extend(totals)
        return tuple(f"{topic}: {why.reason}" for topic, why in answers.items() if why)

    def verify(self, intent: Json, look: Look) -> Seen:
        """How many each has now."""
        short = tuple(
            f"{each['topic']} has {now} of {each['to']} partitions"
            for each, now in _counted(intent, look)
            if now < each["to"]
        )
        total = len(intent["changes"])
        if short:
            words = f"too few partitions: {len(short)} of {counted(total, 'topic')}: {short[0]}"
            return Seen(State.WAITING, words, {}, short)
        return Seen(
            State.DONE, f"{counted(total, 'topic')} with as many partitions as on the source"
        )

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: Kafka takes no partition away."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """What stays."""
        more = {
            each["topic"]: now - each["from"]
            for each, now in _counted(intent, look)
            if now > each["from"]
        }
        told = ", ".join(f"{topic} has {count} more" for topic, count in more.items())
        words = f"partitions that were added stay: {told}" if more else "no partition was added"
        return Seen(State.DONE, words, {"added": more} if more else {})


def _counted(intent: Json, look: Look) -> Iterator[tuple[Json, int]]:
    """Each topic, and how many partitions it has; 0 where that is not told."""
    changes = intent["changes"]
    found = shapes(intent["cluster"], topics_of(changes), look)
    for each in changes:
        shape = found.get(each["topic"])
        yield each, shape.partitions if isinstance(shape, TopicShape) else 0
