"""Gives copies as many partitions as their topics have; none is ever taken away."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.fencing import to_add
from drctl.model.finding import Status
from drctl.model.plan import Json
from drctl.model.repairs import Acl, Alteration, TopicShape, WantedTopic
from drctl.model.topology import Unavailable


def counted(number: int, what: str) -> str:
    """How many of something, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def topics_of(changes: Json | Collection[Json]) -> tuple[str, ...]:
    """Those that they are about, each once."""
    return tuple(dict.fromkeys(str(each["topic"]) for each in changes))  # type: ignore[index]


def shapes(
    cluster: str, names: Collection[str], look: LinkReader
) -> Mapping[str, TopicShape | Unavailable | None]:
    """The topics of a cluster; without names nobody is asked.

    Raises:
        Unreachable: it did not answer.
    """
    return look.shapes(cluster).shapes(names) if names else {}


def known_shapes(
    cluster: str, names: Collection[str], look: LinkReader
) -> Mapping[str, TopicShape]:
    """The same, where all of them must be there.

    Raises:
        Refused: one is not, or cannot be looked at.
        Unreachable: the cluster did not answer.
    """
    found: dict[str, TopicShape] = {}
    for name, shape in shapes(cluster, names, look).items():
        if shape is None:
            raise Refused(f"topic {name} is not on {cluster} any more", "make the plan anew")
        if isinstance(shape, Unavailable):
            raise Refused(f"topic {name} of {cluster} cannot be looked at: {shape.reason}")
        found[name] = shape
    return found


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

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
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

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Add them where there are fewer."""
        totals = {e["topic"]: e["to"] for e in intent["changes"] if e["from"] < e["to"]}
        if not totals:
            return ()
        answers = hands.shapes(intent["cluster"]).extend(totals)
        return tuple(f"{topic}: {why.reason}" for topic, why in answers.items() if why)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
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

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Nothing: Kafka takes no partition away."""
        return ()

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """What stays."""
        more = {
            each["topic"]: now - each["from"]
            for each, now in _counted(intent, look)
            if now > each["from"]
        }
        told = ", ".join(f"{topic} has {count} more" for topic, count in more.items())
        words = f"partitions that were added stay: {told}" if more else "no partition was added"
        return Seen(State.DONE, words, {"added": more} if more else {})


def _counted(intent: Json, look: LinkReader) -> Iterator[tuple[Json, int]]:
    """Each topic, and how many partitions it has; 0 where that is not told."""
    changes = intent["changes"]
    found = shapes(intent["cluster"], topics_of(changes), look)
    for each in changes:
        shape = found.get(each["topic"])
        yield each, shape.partitions if isinstance(shape, TopicShape) else 0


class AddRules:
    """Each rule by its full name; those that are there already are not ours to take back."""

    name = "add-rules"
    traits = Trait.CHANGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"add {counted(len(settings['changes']), 'ACL rule')} on {settings['cluster']}",
            f"{settings['cluster']} lists each of them",
            "remove exactly the rules that were added",
        )

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """Which of them are not there.

        Raises:
            Refused: the cluster has no authorizer, or its rules cannot be seen.
            Unreachable: it did not answer.
        """
        cluster = settings["cluster"]
        present = look.acls(cluster).acls()
        if isinstance(present, Unavailable):
            raise Refused(
                f"the ACLs of {cluster} cannot be seen: {present.reason}",
                "allow drctl's user DESCRIBE and ALTER on the cluster",
            )
        if not present.enforced:
            raise Refused(f"{cluster} has no authorizer: it enforces no ACLs")
        rules = _rules([each["rule"] for each in settings["changes"]])
        added = to_add(rules, present)
        return {
            "cluster": cluster,
            "rules": [list(rule) for rule in rules],
            "added": [list(rule) for rule in added],
        }

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Add them."""
        if not intent["added"]:
            return ()
        answers = hands.rules(intent["cluster"]).add(_rules(intent["added"]))
        return tuple(f"{_said(rule)}: {why.reason}" for rule, why in answers.items() if why)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """Whether the cluster lists each."""
        cluster, rules = intent["cluster"], _rules(intent["rules"])
        there = _there(cluster, look)
        if isinstance(there, Unavailable):
            return Seen(State.UNKNOWN, f"the ACLs of {cluster} cannot be seen: {there.reason}")
        lacking = tuple(_said(rule) for rule in rules if rule not in there)
        if lacking:
            words = (
                f"not on {cluster}: {len(lacking)} of {counted(len(rules), 'rule')}: {lacking[0]}"
            )
            return Seen(State.WAITING, words, {}, lacking)
        words = f"{cluster} lists {counted(len(rules), 'rule')}, {len(intent['added'])} of them new"
        return Seen(State.DONE, words, {"added": len(intent["added"])})

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Remove what was added."""
        if not intent["added"]:
            return ()
        answers = hands.rules(intent["cluster"]).remove(_rules(intent["added"]))
        return tuple(f"{_said(rule)}: {why.reason}" for rule, why in answers.items() if why)

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """Whether they are gone."""
        cluster, added = intent["cluster"], _rules(intent["added"])
        there = _there(cluster, look) if added else frozenset()
        if isinstance(there, Unavailable):
            return Seen(State.UNKNOWN, f"the ACLs of {cluster} cannot be seen: {there.reason}")
        still = tuple(_said(rule) for rule in added if rule in there)
        if still:
            words = f"still on {cluster}: {len(still)} of {counted(len(added), 'rule')}: {still[0]}"
            return Seen(State.WAITING, words, {}, still)
        return Seen(State.DONE, f"{counted(len(added), 'added rule')} gone from {cluster} again")


def _there(cluster: str, look: LinkReader) -> frozenset[Acl] | Unavailable:
    found = look.acls(cluster).acls()
    return found if isinstance(found, Unavailable) else frozenset(found.rules)


def _rules(data: Sequence[Sequence[str]]) -> tuple[Acl, ...]:
    return tuple(Acl(*each) for each in data)


def _said(rule: Acl) -> str:
    return f"{rule.permission} {rule.principal} {rule.operation} {rule.pattern} {rule.name}"


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

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
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

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Set those that are not yet as wanted."""
        wanted = [
            Alteration(each["topic"], each["key"], each["to"])
            for each in intent["changes"]
            if each["from"] != each["to"]
        ]
        return _configured(intent, hands, wanted)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
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

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Put the values from before back."""
        before = [
            Alteration(each["topic"], each["key"], each["own"])
            for each in intent["changes"]
            if each["from"] != each["to"]
        ]
        return _configured(intent, hands, before)

    def undone(self, intent: Json, look: LinkReader) -> Seen:
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


def _configured(intent: Json, hands: LinkWriter, changes: list[Alteration]) -> tuple[str, ...]:
    if not changes:
        return ()
    answers = hands.shapes(intent["cluster"]).configure(changes)
    return tuple(f"{topic}: {why.reason}" for topic, why in answers.items() if why)


def _values(changes: list[Json], found: Mapping[str, object]) -> Iterator[tuple[Json, str]]:
    for each in changes:
        shape = found.get(each["topic"])
        setting = shape.settings.get(each["key"]) if isinstance(shape, TopicShape) else None
        yield each, "not known" if setting is None else setting.value


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

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
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

    def apply(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Make them."""
        wanted = [
            WantedTopic(each["topic"], each["partitions"], each["replicas"], each["config"])
            for each in intent["make"]
        ]
        if not wanted:
            return ()
        answers = hands.shapes(intent["cluster"]).create(wanted)
        return tuple(f"{topic}: {why.reason}" for topic, why in answers.items() if why)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
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

    def undo(self, intent: Json, hands: LinkWriter) -> tuple[str, ...]:
        """Nothing: drctl deletes no topic."""
        return ()

    def undone(self, intent: Json, look: LinkReader) -> Seen:
        """What stays."""
        names = topics_of(intent["make"])
        found = shapes(intent["cluster"], names, look)
        made = [name for name in names if found[name] is not None]
        words = f"topics that were made stay: {', '.join(made)}" if made else "no topic was made"
        return Seen(State.DONE, words, {"made": made} if made else {})


def _as_wanted(shape: object, partitions: int) -> bool:
    return isinstance(shape, TopicShape) and shape.partitions >= partitions


AGAIN = "again"
"""What findings are asked for: differences that are there now."""


class SecondLook(Polling):
    """What could be changed and is not yet is waited for; what nobody but a person can is owed."""

    name = "second-look"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        return Description(
            f"compare {target} with {source} once more",
            "no difference is left that drctl would change",
        )

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        """Nothing is needed."""
        return dict(settings)

    def verify(self, intent: Json, look: LinkReader) -> Seen:
        """What differs now."""
        found = look.findings(AGAIN)
        open_ = tuple(each.subject for each in found if each.status is Status.FAIL)
        left = tuple(f"{each.subject}: {each.reason}" for each in found if _is_left(each.status))
        if open_:
            words = (
                f"there still, or again: {counted(len(open_), 'difference')}: {'; '.join(open_)}"
            )
            return Seen(State.WAITING, words, {}, open_)
        words = "no difference is left that drctl would change"
        if not left:
            return Seen(State.DONE, words, {"left": 0})
        owes = f"left to a person: {counted(len(left), 'difference')}: {'; '.join(left)}"
        words = f"{words}; left to a person: {len(left)}"
        return Seen(State.DONE, words, {"left": len(left)}, left, owes)


def _is_left(status: Status) -> bool:
    return status is Status.WARN
