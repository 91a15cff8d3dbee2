"""Brings a target in line with its source: partitions, ACL rules, topic settings, new topics.

Rules and settings can be rolled back; partitions and topics stay, for Kafka takes no partition away
and drctl deletes no topic.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from drctl.engine.kind import Description, Facts, Permanent, Polling, Seen, State, Trait, complaints
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


def _waiting(what: str, items: tuple[str, ...], total: str) -> Seen:
    return Seen(State.WAITING, f"{what}: {len(items)} of {total}: {items[0]}", {}, items)


def topics_of(changes: Iterable[Json]) -> tuple[str, ...]:
    """The topics that changes are about, each once."""
    return tuple(dict.fromkeys(str(each["topic"]) for each in changes))


def shapes(
    cluster: str, names: Collection[str], reader: LinkReader
) -> Mapping[str, TopicShape | Unavailable | None]:
    """The topics of a cluster; without names it is not asked.

    Raises:
        Unreachable: it did not answer.
    """
    return reader.shapes(cluster).shapes(names) if names else {}


def known_shapes(
    cluster: str, names: Collection[str], reader: LinkReader
) -> Mapping[str, TopicShape]:
    """The topics of a cluster, where all of them must be there.

    Raises:
        Refused: one is not, or cannot be looked at.
        Unreachable: the cluster did not answer.
    """
    found: dict[str, TopicShape] = {}
    for name, shape in shapes(cluster, names, reader).items():
        if shape is None:
            raise Refused(f"topic {name} is not on {cluster} any more", "make the plan anew")
        if isinstance(shape, Unavailable):
            raise Refused(f"topic {name} of {cluster} cannot be looked at: {shape.reason}")
        found[name] = shape
    return found


class AddPartitions(Permanent):
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

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """How many each has.

        Raises:
            Refused: a topic is not there any more, or cannot be looked at.
            Unreachable: the cluster did not answer.
        """
        cluster, changes = settings["cluster"], settings["changes"]
        known = known_shapes(cluster, topics_of(changes), reader)
        return {
            "cluster": cluster,
            "changes": [
                {"topic": each["topic"], "from": known[each["topic"]].partitions, "to": each["to"]}
                for each in changes
            ],
        }

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Add them where there are fewer."""
        totals = {e["topic"]: e["to"] for e in intent["changes"] if e["from"] < e["to"]}
        if not totals:
            return ()
        return complaints(writer.shapes(intent["cluster"]).extend(totals))

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """How many each has now."""
        short = tuple(
            f"{each['topic']} has {now} of {each['to']} partitions"
            for each, now in _counted(intent, reader)
            if now < each["to"]
        )
        total = len(intent["changes"])
        if short:
            return _waiting("too few partitions", short, counted(total, "topic"))
        return Seen(
            State.DONE, f"{counted(total, 'topic')} with as many partitions as on the source"
        )

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """What stays."""
        more = {
            each["topic"]: now - each["from"]
            for each, now in _counted(intent, reader)
            if now > each["from"]
        }
        told = ", ".join(f"{topic} has {count} more" for topic, count in more.items())
        words = f"partitions that were added stay: {told}" if more else "no partition was added"
        return Seen(State.DONE, words, stays=bool(more))


def _counted(intent: Json, reader: LinkReader) -> Iterator[tuple[Json, int]]:
    """Each topic, and how many partitions it has; 0 where that is not told."""
    changes = intent["changes"]
    found = shapes(intent["cluster"], topics_of(changes), reader)
    for each in changes:
        shape = found.get(each["topic"])
        yield each, shape.partitions if isinstance(shape, TopicShape) else 0


class AddRules:
    """Each rule by its full name; a rollback leaves those that were there already."""

    name = "add-rules"
    traits = Trait.CHANGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"add {counted(len(settings['changes']), 'ACL rule')} on {settings['cluster']}",
            f"{settings['cluster']} lists each of them",
            "remove exactly the rules that were added",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Which of them are not there.

        Raises:
            Refused: the cluster has no authorizer, or its rules cannot be seen.
            Unreachable: it did not answer.
        """
        cluster = settings["cluster"]
        present = reader.acls(cluster).acls()
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

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Add them."""
        if not intent["added"]:
            return ()
        return complaints(writer.rules(intent["cluster"]).add(_rules(intent["added"])), _said)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether the cluster lists each."""
        cluster, rules = intent["cluster"], _rules(intent["rules"])
        there = _there(cluster, reader)
        if isinstance(there, Seen):
            return there
        missing = tuple(_said(rule) for rule in rules if rule not in there)
        if missing:
            return _waiting(f"not on {cluster}", missing, counted(len(rules), "rule"))
        words = f"{cluster} lists {counted(len(rules), 'rule')}, {len(intent['added'])} of them new"
        return Seen(State.DONE, words, {"added": len(intent["added"])})

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Remove what was added."""
        if not intent["added"]:
            return ()
        return complaints(writer.rules(intent["cluster"]).remove(_rules(intent["added"])), _said)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether they are gone."""
        cluster, added = intent["cluster"], _rules(intent["added"])
        there = _there(cluster, reader) if added else frozenset()
        if isinstance(there, Seen):
            return there
        still = tuple(_said(rule) for rule in added if rule in there)
        if still:
            return _waiting(f"still on {cluster}", still, counted(len(added), "rule"))
        return Seen(State.DONE, f"{counted(len(added), 'added rule')} gone from {cluster} again")


def _there(cluster: str, reader: LinkReader) -> frozenset[Acl] | Seen:
    found = reader.acls(cluster).acls()
    if isinstance(found, Unavailable):
        return Seen(State.UNKNOWN, f"the ACLs of {cluster} cannot be seen: {found.reason}")
    return frozenset(found.rules)


def _rules(data: Sequence[Sequence[str]]) -> tuple[Acl, ...]:
    return tuple(Acl(*each) for each in data)


def _said(rule: Acl) -> str:
    return f"{rule.permission} {rule.principal} {rule.operation} {rule.pattern} {rule.name}"


class ConfigureTopics:
    """A topic's own values from before are in the journal; a rollback restores them."""

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

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """What each is now.

        Raises:
            Refused: one is neither as the plan saw it nor as it is to be.
            Unreachable: the cluster did not answer.
        """
        cluster, changes = settings["cluster"], settings["changes"]
        known = known_shapes(cluster, topics_of(changes), reader)
        return {
            "cluster": cluster,
            "changes": [_with_before(cluster, each, known[each["topic"]]) for each in changes],
        }

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Set those that are not yet as wanted."""
        return _configured(intent, "to", writer)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether each reads back."""
        cluster, changes = intent["cluster"], intent["changes"]
        found = shapes(cluster, topics_of(changes), reader)
        wrong = tuple(
            f"{each['topic']}: {each['key']} is {now}, not {each['to']}"
            for each, now in _values(changes, found)
            if now != each["to"]
        )
        if wrong:
            return _waiting("not as wanted", wrong, counted(len(changes), "setting"))
        return Seen(
            State.DONE,
            f"{counted(len(changes), 'setting')} read back as wanted",
            {"set": len(changes)},
        )

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Put the values from before back."""
        return _configured(intent, "own", writer)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether each is as it was before."""
        changes = _altered(intent)
        found = shapes(intent["cluster"], topics_of(changes), reader)
        wrong = tuple(
            f"{each['topic']}: {each['key']} is {now}, and was {each['from']}"
            for each, now in _values(changes, found)
            if now != each["from"]
        )
        if wrong:
            return _waiting("not put back", wrong, counted(len(changes), "setting"))
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


def _altered(intent: Json) -> list[Json]:
    return [each for each in intent["changes"] if each["from"] != each["to"]]


def _configured(intent: Json, value: str, writer: LinkWriter) -> tuple[str, ...]:
    changes = [Alteration(e["topic"], e["key"], e[value]) for e in _altered(intent)]
    return complaints(writer.shapes(intent["cluster"]).configure(changes)) if changes else ()


def _values(changes: list[Json], found: Mapping[str, object]) -> Iterator[tuple[Json, str]]:
    for each in changes:
        shape = found.get(each["topic"])
        setting = shape.settings.get(each["key"]) if isinstance(shape, TopicShape) else None
        yield each, "not known" if setting is None else setting.value


class MakeTopics(Permanent):
    """A topic that was made stays: by the time of a rollback there may be records in it."""

    name = "make-topics"
    traits = Trait.CHANGES | Trait.STAYS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(
            f"make {counted(len(settings['changes']), 'topic')} on {settings['cluster']}",
            "each is there, with its partitions",
            "none: drctl deletes no topic, and the replicator may have filled it by then",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Which of them are not there.

        Raises:
            Refused: whether one is there cannot be seen.
            Unreachable: the cluster did not answer.
        """
        cluster, changes = settings["cluster"], settings["changes"]
        found = shapes(cluster, topics_of(changes), reader)
        for name, shape in found.items():
            if isinstance(shape, Unavailable):
                raise Refused(f"topic {name} of {cluster} cannot be looked at: {shape.reason}")
        return {
            "cluster": cluster,
            "make": [each for each in changes if found[each["topic"]] is None],
            "there": [each["topic"] for each in changes if found[each["topic"]] is not None],
        }

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Make them."""
        wanted = [
            WantedTopic(each["topic"], each["partitions"], each["replicas"], each["config"])
            for each in intent["make"]
        ]
        if not wanted:
            return ()
        return complaints(writer.shapes(intent["cluster"]).create(wanted))

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether they are there, with as many partitions."""
        cluster, made = intent["cluster"], intent["make"]
        found = shapes(cluster, topics_of(made), reader)
        missing = tuple(
            f"topic {each['topic']} is not there, or has fewer than {each['partitions']} partitions"
            for each in made
            if not (
                isinstance(shape := found[each["topic"]], TopicShape)
                and shape.partitions >= each["partitions"]
            )
        )
        if missing:
            return _waiting("not as wanted", missing, counted(len(made), "topic"))
        already = f"; there already: {len(intent['there'])}" if intent["there"] else ""
        return Seen(State.DONE, f"{counted(len(made), 'topic')} made on {cluster}{already}")

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """What stays."""
        names = topics_of(intent["make"])
        found = shapes(intent["cluster"], names, reader)
        made = [name for name in names if found[name] is not None]
        words = f"topics that were made stay: {', '.join(made)}" if made else "no topic was made"
        return Seen(State.DONE, words, stays=bool(made))


AGAIN = "again"
"""What findings are asked for: differences that are there now."""


class SecondLook(Polling):
    """What can be changed and is not yet is waited for; what only a person can change is owed."""

    name = "second-look"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        return Description(
            f"compare {target} with {source} once more",
            "no difference is left that drctl would change",
        )

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Nothing is needed."""
        return dict(settings)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What differs now."""
        found = reader.findings(AGAIN)
        open_ = tuple(each.subject for each in found if each.status is Status.FAIL)
        left = tuple(
            f"{each.subject}: {each.reason}" for each in found if each.status is Status.WARN
        )
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
