"""Builds adapters for `drctl drill`."""

import fcntl
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drctl.app import adapters
from drctl.app.link_reader import ClusterLinkReader
from drctl.app.link_writer import ClusterLinkWriter
from drctl.drill.cleaning import drill_of
from drctl.drill.clients import SOURCE, TARGET
from drctl.model.errors import Refused, Unknown

if TYPE_CHECKING:
    from pathlib import Path

    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.drill.cleaning import Ports, Scratch
    from drctl.drill.takeovers import SourceConnectors
    from drctl.engine.ports import ProbeWriter
    from drctl.kafka.drill import DrillReader, DrillWriter
    from drctl.model.fencing import AclWriter
    from drctl.model.groups import Positions
    from drctl.model.ports import GroupWriter
    from drctl.model.repairs import Acl
    from drctl.model.topology import TopicPartition, Unavailable
    from drctl.stores.journal_files import DrillHistory, RunFiles

FOLDER = "drills"


def folder(config: "Config") -> "Path":
    """The folder of drills on this host."""
    return config.state_dir / FOLDER


def history(config: "Config") -> "DrillHistory":
    """The history of drills."""
    from drctl.stores.journal_files import DrillHistory

    return DrillHistory(folder(config) / "history.jsonl")


def journals(config: "Config") -> "RunFiles":
    """The journals of drills; a drill does not lock the link."""
    from drctl.stores.journal_files import RunFiles

    return RunFiles(folder(config))


@contextmanager
def ports(name: str, cluster: "ClusterConfig") -> "Iterator[Ports]":
    """Readers and writers to inspect and clean up one cluster.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.drill.cleaning import Ports

    with ExitStack() as opened:
        enter = opened.enter_context
        yield Ports(
            name,
            enter(adapters.reader(name, cluster, adapters.TIMEOUT_S).topics),
            enter(adapters.reader(name, cluster, adapters.TIMEOUT_S).groups),
            enter(adapters.reader(name, cluster).acls),
            enter(adapters.writer(name, cluster).scratch),
            enter(adapters.writer(name, cluster).acls),
            enter(adapters.reader(name, cluster).survey),
        )


def source_applications(
    link: "Link", scratch: "Scratch", most: int
) -> "tuple[DrillWriter, DrillReader]":
    """A producer, and a consumer that stops after `most` records, on the source."""
    from drctl.kafka.drill import DrillReader, DrillWriter

    properties = adapters.revealed(link.source_config)
    place = (link.source, properties, scratch.topic)
    return DrillWriter(*place, SOURCE), DrillReader(*place, scratch.group, most)


def target_applications(link: "Link", scratch: "Scratch") -> "tuple[DrillWriter, DrillReader]":
    """A producer, and a consumer that starts at the group's committed offsets, on the target."""
    from drctl.kafka.drill import DrillReader, DrillWriter

    properties = adapters.revealed(link.target_config)
    place = (link.target, properties, link.target_topic(scratch.topic))
    return DrillWriter(*place, TARGET), DrillReader(*place, scratch.group)


def source_connectors(link: "Link") -> "SourceConnectors":
    """The link's source connectors: those that move with the applications, then the replicator's.

    Raises:
        ConfigError: a secret that the configuration refers to is missing.
    """
    from drctl.connect.client import ConnectWriter
    from drctl.drill.takeovers import SourceConnectors

    replicator, moving = link.settings.replicator, link.settings.source_connectors
    named = [(moving.source, moving.names)] if moving else []
    places = [(adapters.open_connect(ConnectWriter, given), names) for given, names in named]
    if name := replicator.connectors.source:
        places.append((adapters.open_connect(ConnectWriter, replicator), (name,)))
    return SourceConnectors([(client, names) for client, names in places if client])


def records_on_target(link: "Link", scratch: "Scratch") -> Mapping[str, int]:
    """How often a plain consumer finds each record on the target.

    Raises:
        Unreachable: the target did not answer.
    """
    from drctl.kafka.drill import count_ids

    properties = adapters.revealed(link.target_config)
    return count_ids(link.target, properties, link.target_topic(scratch.topic))


def own_principals(link: "Link") -> Sequence[str]:
    """The principal of the drill's producer on the source, if the properties have a user name."""
    user = adapters.revealed(link.source_config).get("sasl.username", "")
    return (f"User:{user}",) if user else ()


@contextmanager
def alive(file: "Path") -> Iterator[None]:
    """Lock a file while this process runs, so that other processes see that the drill is alive.

    Raises:
        Unknown: the file cannot be created.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unknown(f"cannot write {file}: {error.strerror}", "set state_dir") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_alive(file: "Path") -> bool:
    """Whether a process has locked the file."""
    try:
        handle = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


_BUG = "this is a bug in drctl; this call changed nothing"


@dataclass(slots=True)
class DrillLinkReader(ClusterLinkReader):
    """Reads a link that is restricted to the drill's topics.

    Attributes:
        probe_record: the drill's topic for the probe record.
    """

    rehearses = True
    probe_record: str = ""

    def probe_readable(self, name: str, topic: str, text: str) -> bool:
        """Whether the drill's probe record can be read on a cluster."""
        return ClusterLinkReader.probe_readable(self, name, self.probe_record, text)


@dataclass(frozen=True, slots=True)
class DrillLinkWriter:
    """The part of `LinkWriter` that a drill needs; everything else is refused.

    Attributes:
        probe_topic: the topic of the probe record.
        denied: called after a fence was set.
    """

    inner: ClusterLinkWriter
    probe_topic: str
    denied: Callable[[], None] = lambda: None

    def groups(self, name: str) -> "GroupWriter":
        """Changes the offsets of the drill's groups."""
        return _OwnGroups(adapters.writer(name, self.inner.config.cluster(name)).groups)

    def acls(self, name: str) -> "AclWriter":
        """Changes ACL rules on the drill's topics."""
        rules = adapters.writer(name, self.inner.config.cluster(name)).acls
        return _OwnRules(rules, self.denied)

    def probe_record(self, name: str, endpoint: int | None = None) -> "ProbeWriter":
        """Writes to the drill's own topic."""
        return _DrillProbeWriter(self.inner.probe_record(name, endpoint), self.probe_topic)

    def save_evidence(self, name: str, document: "Mapping[str, Any] | str") -> None:
        """Write evidence into the drill's folder."""
        self.inner.save_evidence(name, document)

    def __getattr__(self, name: str) -> Any:
        """Refuse everything else that a `LinkWriter` can change.

        Raises:
            Refused: always.
        """
        raise _beyond(f"change {name}")


@dataclass(frozen=True, slots=True)
class _OwnGroups:
    """Implements `GroupWriter` of `drctl.model.ports`."""

    inner: "GroupWriter"

    def commit(
        self, wanted: "Mapping[str, Positions]"
    ) -> "Mapping[str, Mapping[TopicPartition, Unavailable | None]]":
        """Commit offsets of the drill's group in its topics."""
        _require_ours([*wanted, *(place.topic for places in wanted.values() for place in places)])
        return self.inner.commit(wanted)

    def delete(
        self, unwanted: "Mapping[str, Collection[TopicPartition]]"
    ) -> "Mapping[str, Mapping[TopicPartition, Unavailable | None]]":
        """Delete offsets of the drill's group in its topics."""
        _require_ours([*unwanted, *(p.topic for places in unwanted.values() for p in places)])
        return self.inner.delete(unwanted)


@dataclass(frozen=True, slots=True)
class _OwnRules:
    """Implements `AclWriter` of `drctl.model.fencing`."""

    inner: "AclWriter"
    denied: Callable[[], None]

    def deny(self, rules: "Collection[Acl]") -> "Mapping[Acl, Unavailable | None]":
        """Add deny rules on the drill's topics."""
        _require_ours(rule.name for rule in rules)
        answers = self.inner.deny(rules)
        self.denied()
        return answers

    def restore(self, rules: "Collection[Acl]") -> "Mapping[Acl, Unavailable | None]":
        """Remove deny rules on the drill's topics."""
        _require_ours(rule.name for rule in rules)
        return self.inner.restore(rules)


@dataclass(frozen=True, slots=True)
class _DrillProbeWriter:
    """Implements `drctl.engine.ports.ProbeWriter`."""

    inner: "ProbeWriter"
    topic: str

    def write_probe(self, topic: str, text: str) -> None:
        """Write a probe record into the drill's topic instead of `topic`."""
        _require_ours([self.topic])
        self.inner.write_probe(self.topic, text)


def _require_ours(names: Iterable[str]) -> None:
    for name in names:
        if drill_of(name) is None:
            raise _beyond(f"touch {name}")


def _beyond(what: str) -> Refused:
    return Refused(f"a drill must not {what}", _BUG)
