"""Gives copies the settings of their topics: key by key, and no other key."""

from collections.abc import Iterator, Mapping

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.steps.shapes import counted, known_shapes, shapes, topics_of
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.model.repairs import Alteration, TopicShape


class ConfigureTopics:
    """What a topic had of its own before is written down, and put back where the run turns back."""

    name = "configure-topics"
    traits = Trait.CHANGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        changes = settings["changes"]
        return Description(
            f"change {counted(len(changes), 'setting')} of"
            f" {counted(len(topics_of(changes)), 'topic')} on {settings['cluster']}",
            "each reads back as the source has it",
            "each gets its value from before, or none of its own where it had none",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """What each is now.

        Raises:
            Refused: one is neither as the plan saw it nor as it is to be.
            Unreachable: the cluster did not answer.
        """
        cluster, changes = settings["cluster"], settings["changes"]
        known = known_shapes(cluster, topics_of(changes), look)
        return {
            "cluster": cluster,
            "changes": [_with_before(cluster, each, known[each["topic"]]) for each in changes],
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Set those that are not yet as wanted."""
        wanted = [
            Alteration(each["topic"], each["key"], each["to"])
            for each in intent["changes"]
            if each["from"] != each["to"]
        ]
        return _configured(intent, hands, wanted)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether each reads back."""
        cluster, changes = intent["cluster"], intent["changes"]
        found = shapes(cluster, topics_of(changes), look)
        wrong = tuple(
            f"{each['topic']}: {each['key']} is {now}, not {each['to']}"
            for each, now in _values(changes, found)
            if now != each["to"]
        )
        if wrong:
            words = f"not as wanted: {len(wrong)} of {counted(len(changes), 'setting')}: {wrong[0]}"
            return Seen(State.WAITING, words, {}, wrong)
        return Seen(
            State.DONE,
            f"{counted(len(changes), 'setting')} read back as wanted",
            {"set": len(changes)},
        )

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Put the values from before back."""
        before = [
            Alteration(each["topic"], each["key"], each["own"])
            for each in intent["changes"]
            if each["from"] != each["to"]
        ]
        return _configured(intent, hands, before)

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether each is as it was before."""
        cluster = intent["cluster"]
        changes = [each for each in intent["changes"] if each["from"] != each["to"]]
        found = shapes(cluster, topics_of(changes), look)
        wrong = tuple(
            f"{each['topic']}: {each['key']} is {now}, and was {each['from']}"
            for each, now in _values(changes, found)
            if now != each["from"]
        )
        if wrong:
            words = f"not put back: {len(wrong)} of {counted(len(changes), 'setting')}: {wrong[0]}"
            return Seen(State.WAITING, words, {}, wrong)
        return Seen(State.DONE, f"{counted(len(changes), 'setting')} as before")


def _with_before(cluster: str, change: Json, shape: TopicShape) -> dict[str, str | None]:
    topic, key, wanted = change["topic"], change["key"], change["to"]
    now = shape.settings.get(key)
    if now is None:
        raise Refused(f"{key} of topic {topic} of {cluster} may not be read")
    if now.value not in (change["from"], wanted):
        raise Refused(
            f"{key} of topic {topic} of {cluster} is {now.value}, and was {change['from']}",
            "make the plan anew",
        )
    own = now.value if now.own else None
    return {"topic": topic, "key": key, "from": now.value, "own": own, "to": wanted}


def _configured(intent: Json, hands: Hands, changes: list[Alteration]) -> tuple[str, ...]:
    if not changes:
        return ()
    answers = hands.shapes(intent["cluster"]).configure(changes)
    return tuple(f"{topic}: {why.reason}" for topic, why in answers.items() if why)


def _values(changes: list[Json], found: Mapping[str, object]) -> Iterator[tuple[Json, str]]:
    for each in changes:
        shape = found.get(each["topic"])
        setting = shape.settings.get(each["key"]) if isinstance(shape, TopicShape) else None
        yield each, "not known" if setting is None else setting.value
