"""Aligns a target with its source: partitions, ACLs, topic settings, new topics.

ACLs and settings can be rolled back. Partitions and topics stay: Kafka cannot remove partitions,
and drctl deletes no topic.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from pydantic import Field

from drctl.engine.kind import (
    BothClusters,
    Description,
    Facts,
    Permanent,
    Polling,
    Readback,
    State,
    StepKind,
    Trait,
    failed_items,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.fencing import to_add
from drctl.model.finding import Status
from drctl.model.repairs import Acl, Alteration, TopicShape, WantedTopic
from drctl.model.text import plural
from drctl.model.topology import Unavailable


def _waiting(what: str, items: tuple[str, ...], total: str) -> Readback[Any]:
    return Readback(State.WAITING, f"{what}: {len(items)} of {total}: {items[0]}", items=items)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference, described for the operator: see `drctl.checks.repairs.Fix`."""

    what: str
    before: str
    after: str
    why: str
    note: str


@dataclass(frozen=True, kw_only=True)
class AclChange(Difference):
    """An ACL to add."""

    acl: Acl


@dataclass(frozen=True, kw_only=True)
class PartitionsChange(Difference):
    """The number of partitions that a topic should have."""

    topic: str
    to: int


@dataclass(frozen=True, kw_only=True)
class SettingChange(Difference):
    """A topic setting: its value when the plan was made, and its new value."""

    topic: str
    key: str
    was: Annotated[str, Field(alias="from")]
    to: str


@dataclass(frozen=True, kw_only=True)
class TopicChange(Difference):
    """A topic to create."""

    topic: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


class _OfTopic(Protocol):
    @property
    def topic(self) -> str: ...


def topics_of(changes: Iterable[_OfTopic]) -> tuple[str, ...]:
    """The topics of the changes, without duplicates."""
    return tuple(dict.fromkeys(each.topic for each in changes))


def shapes(
    cluster: str, names: Collection[str], reader: LinkReader
) -> Mapping[str, TopicShape | Unavailable | None]:
    """Describe topics; sends no request if there are no names.

    Raises:
        Unreachable: the cluster did not respond.
    """
    return reader.shapes(cluster).shapes(names) if names else {}


def known_shapes(
    cluster: str, names: Collection[str], reader: LinkReader
) -> Mapping[str, TopicShape]:
    """Describe topics, all of which must exist.

    Raises:
        Refused: a topic does not exist, or cannot be described.
        Unreachable: the cluster did not respond.
    """
    found: dict[str, TopicShape] = {}
    for name, shape in shapes(cluster, names, reader).items():
        if shape is None:
            raise Refused(
                f"topic {name} no longer exists on {cluster}",
                "make a new plan: run the same command again",
            )
        if isinstance(shape, Unavailable):
            raise Refused(f"topic {name} of {cluster} cannot be described: {shape.reason}")
        found[name] = shape
    return found


@dataclass(frozen=True, slots=True)
class PartitionsSettings:
    """The topics that get partitions."""

    cluster: str
    changes: tuple[PartitionsChange, ...]


@dataclass(frozen=True, slots=True)
class Extended:
    """How many partitions a topic has, and how many it should have."""

    topic: str
    was: Annotated[int, Field(alias="from")]
    to: int


@dataclass(frozen=True, slots=True)
class PartitionsIntent:
    """The topics with their current number of partitions."""

    cluster: str
    changes: tuple[Extended, ...]


class AddPartitions(Permanent[PartitionsSettings, PartitionsIntent, None]):
    """Adds partitions; they stay, because Kafka cannot remove partitions."""

    name = "add-partitions"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    def describe(self, settings: PartitionsSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"add partitions to {plural(len(settings.changes), 'topic')} of {settings.cluster}",
            "each has at least as many as on the source",
            "none: Kafka cannot remove partitions, and an extra empty one is harmless",
        )

    def check(
        self, settings: PartitionsSettings, facts: Facts, reader: LinkReader
    ) -> PartitionsIntent:
        """Read the current numbers.

        Raises:
            Refused: a topic no longer exists, or cannot be described.
            Unreachable: the cluster did not respond.
        """
        known = known_shapes(settings.cluster, topics_of(settings.changes), reader)
        changes = (Extended(e.topic, known[e.topic].partitions, e.to) for e in settings.changes)
        return PartitionsIntent(settings.cluster, tuple(changes))

    def apply(self, intent: PartitionsIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Add the missing partitions."""
        totals = {e.topic: e.to for e in intent.changes if e.was < e.to}
        if not totals:
            return ()
        return failed_items(writer.shapes(intent.cluster).extend(totals))

    def verify(self, intent: PartitionsIntent, reader: LinkReader) -> Readback[None]:
        """Verify the number of partitions of each topic."""
        short = tuple(
            f"{each.topic} has {now} of {each.to} partitions"
            for each, now in _plural(intent, reader)
            if now < each.to
        )
        total = len(intent.changes)
        if short:
            return _waiting("too few partitions", short, plural(total, "topic"))
        return Readback(
            State.DONE, f"{plural(total, 'topic')} with as many partitions as on the source"
        )

    def verify_undo(self, intent: PartitionsIntent, reader: LinkReader) -> Readback[None]:
        """Report what stays changed."""
        more = {
            each.topic: now - each.was for each, now in _plural(intent, reader) if now > each.was
        }
        counts = ", ".join(f"{topic} has {count} more" for topic, count in more.items())
        message = (
            f"added partitions cannot be removed: {counts}" if more else "no partition was added"
        )
        return Readback(State.DONE, message, leaves_changes=bool(more))


def _plural(intent: PartitionsIntent, reader: LinkReader) -> Iterator[tuple[Extended, int]]:
    """Each topic with its number of partitions; 0 if unknown."""
    found = shapes(intent.cluster, topics_of(intent.changes), reader)
    for each in intent.changes:
        shape = found.get(each.topic)
        yield each, shape.partitions if isinstance(shape, TopicShape) else 0


@dataclass(frozen=True, slots=True)
class AclsSettings:
    """The ACLs to add."""

    cluster: str
    changes: tuple[AclChange, ...]


@dataclass(frozen=True, slots=True)
class AclsIntent:
    """The wanted ACLs, and the missing ones among them."""

    cluster: str
    acls: tuple[Acl, ...]
    added: tuple[Acl, ...]


@dataclass(frozen=True, slots=True)
class AclsFacts:
    """How many ACLs were added."""

    added: int


class AddAcls(StepKind[AclsSettings, AclsIntent, AclsFacts]):
    """Adds ACLs; a rollback removes only the added ones."""

    name = "add-acls"
    traits = Trait.CHANGES

    def describe(self, settings: AclsSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"add {plural(len(settings.changes), 'ACL')} on {settings.cluster}",
            f"{settings.cluster} lists each of them",
            "remove exactly the ACLs that were added",
        )

    def check(self, settings: AclsSettings, facts: Facts, reader: LinkReader) -> AclsIntent:
        """Find the missing ACLs.

        Raises:
            Refused: the cluster has no authorizer, or its ACLs cannot be listed.
            Unreachable: the cluster did not respond.
        """
        cluster = settings.cluster
        present = reader.acls(cluster).acls()
        if isinstance(present, Unavailable):
            raise Refused(
                f"the ACLs of {cluster} cannot be listed: {present.reason}",
                "allow drctl's user DESCRIBE and ALTER on the cluster",
            )
        if not present.enforced:
            raise Refused(f"{cluster} has no authorizer: it enforces no ACLs")
        acls = tuple(each.acl for each in settings.changes)
        return AclsIntent(cluster, acls, tuple(to_add(acls, present)))

    def apply(self, intent: AclsIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Add the missing ACLs."""
        if not intent.added:
            return ()
        return failed_items(writer.rules(intent.cluster).add(intent.added), _acl_text)

    def verify(self, intent: AclsIntent, reader: LinkReader) -> Readback[AclsFacts]:
        """Verify that the cluster lists every ACL."""
        cluster, acls = intent.cluster, intent.acls
        there = _there(cluster, reader)
        if isinstance(there, Readback):
            return there
        missing = tuple(_acl_text(acl) for acl in acls if acl not in there)
        if missing:
            return _waiting(f"not on {cluster}", missing, plural(len(acls), "ACL"))
        message = f"{cluster} lists {plural(len(acls), 'ACL')}, {len(intent.added)} of them new"
        return Readback(State.DONE, message, AclsFacts(len(intent.added)))

    def undo(self, intent: AclsIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Remove the added ACLs."""
        if not intent.added:
            return ()
        return failed_items(writer.rules(intent.cluster).remove(intent.added), _acl_text)

    def verify_undo(self, intent: AclsIntent, reader: LinkReader) -> Readback[AclsFacts]:
        """Verify that the added ACLs are gone."""
        cluster, added = intent.cluster, intent.added
        there = _there(cluster, reader) if added else frozenset()
        if isinstance(there, Readback):
            return there
        still = tuple(_acl_text(acl) for acl in added if acl in there)
        if still:
            return _waiting(f"still on {cluster}", still, plural(len(added), "ACL"))
        return Readback(State.DONE, f"{plural(len(added), 'added ACL')} removed from {cluster}")


def _there(cluster: str, reader: LinkReader) -> frozenset[Acl] | Readback[Any]:
    found = reader.acls(cluster).acls()
    if isinstance(found, Unavailable):
        return Readback(State.UNKNOWN, f"the ACLs of {cluster} cannot be listed: {found.reason}")
    return frozenset(found.rules)


def _acl_text(acl: Acl) -> str:
    return f"{acl.permission} {acl.principal} {acl.operation} {acl.pattern} {acl.name}"


@dataclass(frozen=True, slots=True)
class ConfigureSettings:
    """The topic settings to change."""

    cluster: str
    changes: tuple[SettingChange, ...]


@dataclass(frozen=True, slots=True)
class Configured:
    """A topic setting: its current value, and its new value.

    Attributes:
        own: the topic's previous override; None if it had none.
    """

    topic: str
    key: str
    was: Annotated[str, Field(alias="from")]
    own: str | None
    to: str


@dataclass(frozen=True, slots=True)
class ConfigureIntent:
    """The settings with their current values."""

    cluster: str
    changes: tuple[Configured, ...]

    @property
    def altered(self) -> tuple[Configured, ...]:
        """The settings that still have to be changed."""
        return tuple(each for each in self.changes if each.was != each.to)


@dataclass(frozen=True, slots=True)
class ConfigureFacts:
    """How many settings have the wanted value."""

    set: int


class ConfigureTopics(StepKind[ConfigureSettings, ConfigureIntent, ConfigureFacts]):
    """Changes topic settings; a rollback restores the previous overrides from the journal."""

    name = "configure-topics"
    traits = Trait.CHANGES

    def describe(self, settings: ConfigureSettings) -> Description:
        """Describe the step for plans and reports."""
        changes = settings.changes
        return Description(
            f"change {plural(len(changes), 'setting')} of"
            f" {plural(len(topics_of(changes)), 'topic')} on {settings.cluster}",
            "each has the source's value when read back",
            "restore each previous value, or remove the override where there was none",
        )

    def check(
        self, settings: ConfigureSettings, facts: Facts, reader: LinkReader
    ) -> ConfigureIntent:
        """Read the current values.

        Raises:
            Refused: a setting has neither the planned old value nor the new one.
            Unreachable: the cluster did not respond.
        """
        cluster, changes = settings.cluster, settings.changes
        known = known_shapes(cluster, topics_of(changes), reader)
        found = (_with_before(cluster, each, known[each.topic]) for each in changes)
        return ConfigureIntent(cluster, tuple(found))

    def apply(self, intent: ConfigureIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Change the settings."""
        return _configured(intent, lambda each: each.to, writer)

    def verify(self, intent: ConfigureIntent, reader: LinkReader) -> Readback[ConfigureFacts]:
        """Verify that each value reads back."""
        cluster, changes = intent.cluster, intent.changes
        found = shapes(cluster, topics_of(changes), reader)
        wrong = tuple(
            f"{each.topic}: {each.key} is {now}, not {each.to}"
            for each, now in _values(changes, found)
            if now != each.to
        )
        if wrong:
            return _waiting("not as planned", wrong, plural(len(changes), "setting"))
        return Readback(
            State.DONE,
            f"{plural(len(changes), 'setting')} read back with the planned values",
            ConfigureFacts(len(changes)),
        )

    def undo(self, intent: ConfigureIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous values."""
        return _configured(intent, lambda each: each.own, writer)

    def verify_undo(self, intent: ConfigureIntent, reader: LinkReader) -> Readback[ConfigureFacts]:
        """Verify that each previous value is restored."""
        changes = intent.altered
        found = shapes(intent.cluster, topics_of(changes), reader)
        wrong = tuple(
            f"{each.topic}: {each.key} is {now}, but was {each.was} before the change"
            for each, now in _values(changes, found)
            if now != each.was
        )
        if wrong:
            return _waiting("not restored", wrong, plural(len(changes), "setting"))
        return Readback(State.DONE, f"{plural(len(changes), 'setting')} restored")


def _with_before(cluster: str, change: SettingChange, shape: TopicShape) -> Configured:
    topic, key, now = change.topic, change.key, shape.settings.get(change.key)
    if now is None:
        raise Refused(f"{key} of topic {topic} of {cluster} cannot be read")
    if now.value not in (change.was, change.to):
        raise Refused(
            f"{key} of topic {topic} of {cluster} is {now.value}, but was {change.was} when the"
            " plan was made",
            "make a new plan: run the same command again",
        )
    return Configured(topic, key, now.value, now.value if now.own else None, change.to)


def _configured(
    intent: ConfigureIntent, value: Callable[[Configured], str | None], writer: LinkWriter
) -> tuple[str, ...]:
    changes = [Alteration(each.topic, each.key, value(each)) for each in intent.altered]
    return failed_items(writer.shapes(intent.cluster).configure(changes)) if changes else ()


def _values(
    changes: Iterable[Configured], found: Mapping[str, object]
) -> Iterator[tuple[Configured, str]]:
    for each in changes:
        shape = found.get(each.topic)
        setting = shape.settings.get(each.key) if isinstance(shape, TopicShape) else None
        yield each, "not known" if setting is None else setting.value


@dataclass(frozen=True, slots=True)
class TopicsSettings:
    """The topics to create."""

    cluster: str
    changes: tuple[TopicChange, ...]


@dataclass(frozen=True, slots=True)
class TopicsIntent:
    """The topics to create, and those that exist already."""

    cluster: str
    make: tuple[TopicChange, ...]
    there: tuple[str, ...]


class CreateTopics(Permanent[TopicsSettings, TopicsIntent, None]):
    """Creates topics; they stay, because replication may have written to them."""

    name = "create-topics"
    traits = Trait.CHANGES | Trait.IRREVERSIBLE

    def describe(self, settings: TopicsSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"create {plural(len(settings.changes), 'topic')} on {settings.cluster}",
            "each exists, with its partitions",
            "none: drctl deletes no topics, and replication may have filled them",
        )

    def check(self, settings: TopicsSettings, facts: Facts, reader: LinkReader) -> TopicsIntent:
        """Find the topics that do not exist.

        Raises:
            Refused: a topic cannot be described.
            Unreachable: the cluster did not respond.
        """
        cluster, changes = settings.cluster, settings.changes
        found = shapes(cluster, topics_of(changes), reader)
        for name, shape in found.items():
            if isinstance(shape, Unavailable):
                raise Refused(f"topic {name} of {cluster} cannot be described: {shape.reason}")
        make = tuple(each for each in changes if found[each.topic] is None)
        there = tuple(each.topic for each in changes if found[each.topic] is not None)
        return TopicsIntent(cluster, make, there)

    def apply(self, intent: TopicsIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Create the topics."""
        wanted = [
            WantedTopic(each.topic, each.partitions, each.replicas, each.config)
            for each in intent.make
        ]
        if not wanted:
            return ()
        return failed_items(writer.shapes(intent.cluster).create(wanted))

    def verify(self, intent: TopicsIntent, reader: LinkReader) -> Readback[None]:
        """Verify that the topics exist, with their partitions."""
        cluster, made = intent.cluster, intent.make
        found = shapes(cluster, topics_of(made), reader)
        missing = tuple(
            f"topic {each.topic} does not exist, or has fewer than"
            f" {plural(each.partitions, 'partition')}"
            for each in made
            if not (
                isinstance(shape := found[each.topic], TopicShape)
                and shape.partitions >= each.partitions
            )
        )
        if missing:
            return _waiting("not as planned", missing, plural(len(made), "topic"))
        already = f"; {len(intent.there)} existed already" if intent.there else ""
        return Readback(State.DONE, f"{plural(len(made), 'topic')} created on {cluster}{already}")

    def verify_undo(self, intent: TopicsIntent, reader: LinkReader) -> Readback[None]:
        """Report what stays changed."""
        names = topics_of(intent.make)
        found = shapes(intent.cluster, names, reader)
        made = [name for name in names if found[name] is not None]
        message = (
            f"created topics are not deleted: {', '.join(made)}" if made else "no topic was created"
        )
        return Readback(State.DONE, message, leaves_changes=bool(made))


AGAIN = "again"
"""The mode in which findings list the differences that still exist."""


@dataclass(frozen=True, slots=True)
class FinalPrecheckFacts:
    """How many differences the operator has to fix."""

    left: int


class FinalPrecheck(Polling[BothClusters, BothClusters, FinalPrecheckFacts]):
    """Waits until no difference remains that drctl can fix; all others are outstanding."""

    name = "final-precheck"
    traits = Trait.NONE

    def describe(self, settings: BothClusters) -> Description:
        """Describe the step for plans and reports."""
        source, target = settings.source, settings.target
        return Description(
            f"compare {target} with {source} again", "no difference remains that drctl would fix"
        )

    def check(self, settings: BothClusters, facts: Facts, reader: LinkReader) -> BothClusters:
        """Use the settings as the intent."""
        return settings

    def verify(self, intent: BothClusters, reader: LinkReader) -> Readback[FinalPrecheckFacts]:
        """Compare the clusters as they are now."""
        found = reader.findings(AGAIN)
        open_ = tuple(each.subject for each in found if each.status is Status.FAIL)
        left = tuple(
            f"{each.subject}: {each.reason}" for each in found if each.status is Status.WARN
        )
        if open_:
            message = (
                f"not fixed yet, or changed again: {plural(len(open_), 'difference')}:"
                f" {'; '.join(open_)}"
            )
            return Readback(State.WAITING, message, items=open_)
        message = "no difference remains that drctl would fix"
        if not left:
            return Readback(State.DONE, message, FinalPrecheckFacts(0))
        outstanding = f"to be fixed by hand: {plural(len(left), 'difference')}: {'; '.join(left)}"
        message = f"{message}; to be fixed by hand: {len(left)}"
        return Readback(State.DONE, message, FinalPrecheckFacts(len(left)), left, outstanding)
