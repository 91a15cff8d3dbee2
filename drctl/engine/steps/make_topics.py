"""Makes copies that are missing, as their topics are on the source; deletes none."""

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.shapes import counted, shapes, topics_of
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.model.repairs import TopicShape, WantedTopic
from drctl.model.topology import Unavailable


class MakeTopics:
    """A topic that was made stays: by the time of a way back there may be records in it."""

    name = "make-topics"
    traits = Trait.CHANGES | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"make {counted(len(settings['changes']), 'topic')} on {settings['cluster']}",
            "each is there, with its partitions",
            "none: drctl deletes no topic, and the replicator may have filled it by then",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which of them are not there.

        Raises:
            Refused: whether one is there cannot be seen.
            Unreachable: the cluster did not answer.
        """
        cluster, changes = settings["cluster"], settings["changes"]
        found = shapes(cluster, topics_of(changes), look)
        for name, shape in found.items():
            if isinstance(shape, Unavailable):
                raise Refused(f"topic {name} of {cluster} cannot be looked at: {shape.reason}")
        return {
            "cluster": cluster,
            "make": [each for each in changes if found[each["topic"]] is None],
            "there": [each["topic"] for each in changes if found[each["topic"]] is not None],
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Make them."""
        wanted = [
            WantedTopic(each["topic"], each["partitions"], each["replicas"], each["config"])
            for each in intent["make"]
        ]
        if not wanted:
            return ()
        answers = hands.shapes(intent["cluster"]).create(wanted)
        return tuple(f"{topic}: {why.reason}" for topic, why in answers.items() if why)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether they are there, with as many partitions."""
        cluster, made = intent["cluster"], intent["make"]
        found = shapes(cluster, topics_of(made), look)
        lacking = tuple(
            f"topic {each['topic']} is not there, or has fewer than {each['partitions']} partitions"
            for each in made
            if not _as_wanted(found[each["topic"]], each["partitions"])
        )
        if lacking:
            words = f"not as wanted: {len(lacking)} of {counted(len(made), 'topic')}: {lacking[0]}"
            return Seen(State.WAITING, words, {}, lacking)
        already = f"; there already: {len(intent['there'])}" if intent["there"] else ""
        return Seen(State.DONE, f"{counted(len(made), 'topic')} made on {cluster}{already}")

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Nothing: drctl deletes no topic."""
        return ()

    def undone(self, intent: Json, look: Look) -> Seen:
        """What stays."""
        names = topics_of(intent["make"])
        found = shapes(intent["cluster"], names, look)
        made = [name for name in names if found[name] is not None]
        words = f"topics that were made stay: {', '.join(made)}" if made else "no topic was made"
        return Seen(State.DONE, words, {"made": made} if made else {})


def _as_wanted(shape: object, partitions: int) -> bool:
    return isinstance(shape, TopicShape) and shape.partitions >= partitions
