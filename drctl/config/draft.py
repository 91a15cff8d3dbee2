"""Drafts a commented drctl.yaml from two clusters and their connectors."""

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import yaml

from drctl.config.fields import UNCHANGED
from drctl.config.mirrors import Mirror, brokers, mirrors, pattern_of
from drctl.config.schema import ClusterConfig
from drctl.model.errors import Refused, UsageError
from drctl.model.ports import ClusterReader
from drctl.model.text import plural


class ConnectorReader(Protocol):
    """Reads the connectors of a Connect cluster."""

    def kafka_cluster_id(self) -> str:
        """The cluster that the workers keep their state in."""

    def connectors(self) -> tuple[str, ...]:
        """Names of all connectors."""

    def config(self, name: str) -> dict[str, str]:
        """A connector's configuration."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A cluster that was read.

    Attributes:
        topics: names of the topics that are not internal, sorted.
        properties: librdkafka properties, as they were given.
    """

    name: str
    bootstrap: str
    cluster_id: str
    topics: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundMirror:
    """Replication that was found.

    Attributes:
        urls: workers that know its connectors.
        forward: whether it copies from the first cluster to the second; None if unknown.
    """

    mirror: Mirror
    urls: tuple[str, ...]
    forward: bool | None


def see(reader: ClusterReader, cluster: ClusterConfig) -> Seen:
    """A cluster's id and topics.

    Raises:
        Unreachable: no broker answered within the deadline.
    """
    names = sorted(name for name in reader.topic_names() if not name.startswith("__"))
    properties = {name: setting.raw for name, setting in cluster.properties.items()}
    bootstrap = cluster.bootstrap.raw
    return Seen(reader.name, bootstrap, reader.cluster_id(), tuple(names), properties)


def must_differ(first: Seen, second: Seen) -> None:
    """Refuse two addresses of one cluster.

    Raises:
        UsageError: it is one cluster.
    """
    if first.cluster_id == second.cluster_id:
        raise UsageError(
            f"{first.bootstrap} and {second.bootstrap} are the same cluster ({first.cluster_id})",
            "give bootstrap servers of two different clusters",
        )


def find_mirrors(
    workers: Mapping[str, ConnectorReader], first: Seen, second: Seen
) -> tuple[FoundMirror, ...]:
    """Find all replication that the workers run; duplicates are merged.

    Raises:
        Unreachable: a worker does not answer.
    """
    found: dict[tuple[str, str], FoundMirror] = {}
    for url, worker in workers.items():
        cluster_id = worker.kafka_cluster_id()
        configs = {name: worker.config(name) for name in worker.connectors()}
        for mirror in mirrors(configs):
            key = (cluster_id, mirror.connectors["source"])
            if key in found:
                found[key] = replace(found[key], urls=(*found[key].urls, url))
            else:
                found[key] = FoundMirror(
                    mirror, (url,), _forward(mirror, cluster_id, first, second)
                )
    return tuple(found.values())


def common_topics(first: Seen, second: Seen) -> tuple[tuple[str, ...], str]:
    """Topics that both clusters hold, and how their names differ on the second."""
    for rename in (UNCHANGED, f"{first.name}.{UNCHANGED}"):
        both = [t for t in first.topics if rename.replace(UNCHANGED, t) in second.topics]
        if both:
            return tuple(both), rename
    return (), UNCHANGED


def _forward(mirror: Mirror, cluster_id: str, first: Seen, second: Seen) -> bool | None:
    """Judge by broker addresses, then by the workers' cluster, then by cluster aliases."""
    one, other = brokers(first.bootstrap), brokers(second.bootstrap)
    source, target = mirror.source_brokers, mirror.target_brokers
    evidence = (
        (bool(source & one or target & other), bool(source & other or target & one)),
        (cluster_id == second.cluster_id, cluster_id == first.cluster_id),
        (mirror.source == first.name, mirror.source == second.name),
    )
    return next((forward for forward, back in evidence if forward != back), None)


_MOST_TOPICS = 20
_PLAIN = re.compile(r"[A-Za-z0-9$/][\w.:/,${}@*-]*(?<!:)")


@dataclass(frozen=True, slots=True)
class Draft:
    """The content of the file."""

    first: Seen
    second: Seen
    mirrors: tuple[FoundMirror, ...]

    @property
    def forward(self) -> FoundMirror | None:
        """The replication of the link; one of unknown direction counts as forward."""
        return next((m for m in self.mirrors if m.forward is not False), None)

    @property
    def backward(self) -> FoundMirror | None:
        """The replication that failback would use."""
        return next((m for m in self.mirrors if m.forward is False), None)

    @property
    def link(self) -> str:
        """The link's name."""
        return "main"

    @property
    def kind(self) -> str:
        """The link's kind of replicator."""
        return self.forward.mirror.kind if self.forward else "none"

    def notes(self) -> tuple[str, ...]:
        """What to check by hand, because the clusters and connectors do not show it."""
        notes = [note for found in self.mirrors for note in found.mirror.notes]
        if self.forward is None:
            notes.append("no replicator from the first cluster to the second was found")
        elif self.forward.forward is None:
            name = self.forward.mirror.connectors["source"]
            notes.append(
                f"cannot determine in which direction {name} replicates: check `from` and `to`"
            )
        used = (self.forward, self.backward)
        for found in self.mirrors:
            if found not in used:
                notes.append(f"ignored: connector {found.mirror.connectors['source']}")
        return tuple(notes)

    def text(self) -> str:
        """The file."""
        lines = [
            "# Configuration of drctl. Do not write secrets into this file: in properties and",
            "# URLs, refer to them with ${env:NAME} or ${file:PATH}.",
            "clusters:",
            *self._cluster(self.first),
            *self._cluster(self.second),
            "",
            "links:",
            f"  {self.link}:",
            f"    from: {word(self.first.name)}  # current direction of replication",
            f"    to: {word(self.second.name)}",
            *self._topics(),
            *self._replicator(),
            "    # How drctl prevents applications from writing to the source (fence):",
            '    # fence: {method: acl, principals: ["User:orders-app"]}',
            "    # identity: [key, value, headers, timestamp]  # fields that replication keeps",
            "",
            "policy:",
            "  max_lag_records: 0    # a planned failover is refused above this lag",
            "  max_rpo_seconds: 30",
            "  order: per-key        # per-key, per-partition or none: as applications need",
            "",
            "spark:",
            "  master: local[*]      # or spark://..., yarn, k8s://...",
            "",
            "state_dir: .drctl",
        ]
        return "\n".join(lines) + "\n"

    def _cluster(self, seen: Seen) -> list[str]:
        lines = [
            f"  {seen.name}:  # id {seen.cluster_id}, {plural(len(seen.topics), 'topic')}",
            f"    bootstrap: {word(seen.bootstrap)}",
        ]
        if not seen.properties:
            return [*lines, "    # properties: {}     # any librdkafka property"]
        return [
            *lines,
            "    properties:  # any librdkafka property",
            *(f"      {word(name)}: {word(value)}" for name, value in seen.properties.items()),
        ]

    def _topics(self) -> list[str]:
        if self.forward:
            mirror = self.forward.mirror
            lines = [
                f"    topics: {words(mirror.topics)}  # full-match regexes, from the replicator"
            ]
            if mirror.exclude:
                lines.append(f"    exclude: {words(mirror.exclude)}")
            return [*lines, f"    groups: {words(mirror.groups)}"]
        both, _ = common_topics(self.first, self.second)
        if not both or len(both) > _MOST_TOPICS:
            return [
                f'    topics: [".*"]  # full-match regexes; both clusters have {len(both)} topics'
            ]
        literal = [pattern_of(topic) for topic in both]
        return [f"    topics: {words(literal)}  # full-match regexes; topics of both clusters"]

    def _replicator(self) -> list[str]:
        found = self.forward
        if found is None:
            _, rename = common_topics(self.first, self.second)
            return [
                "    replicator:",
                "      kind: none  # or mirrormaker2, confluent-replicator, offset-preserving",
                f"      rename: {word(rename)}  # topic name on the target",
            ]
        lines = [
            "    replicator:",
            f"      kind: {found.mirror.kind}",
            *_workers(found, "      "),
            f"      rename: {word(found.mirror.rename)}  # topic name on the target",
        ]
        if self.backward:
            lines += [
                "      reverse:  # replication for failback",
                *_workers(self.backward, "        "),
            ]
            lines.append(f"        rename: {word(self.backward.mirror.rename)}")
        return lines


def word(text: str) -> str:
    """A text as YAML, quoted only if necessary."""
    if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return json.dumps(text)


def words(texts: Sequence[str]) -> str:
    """A list of texts on one line."""
    return json.dumps(list(texts))


def must_be_free(path: Path) -> None:
    """Refuse to overwrite a file.

    Raises:
        Refused: the file exists.
    """
    if path.exists() or path.is_symlink():
        raise Refused(
            f"{path} already exists; nothing was written", "choose another with --output-file"
        )


def write_new(path: Path, text: str) -> None:
    """Write a new file atomically, readable by its owner only.

    Raises:
        Refused: the file exists.
        UsageError: it cannot be written.
    """
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8") as new:
            new.write(text)
            new.flush()
            os.link(new.name, path)
    except FileExistsError:
        must_be_free(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _workers(found: FoundMirror, indent: str) -> list[str]:
    connectors = ", ".join(
        f"{role}: {json.dumps(n)}" for role, n in found.mirror.connectors.items()
    )
    return [f"{indent}connect: {words(found.urls)}", f"{indent}connectors: {{{connectors}}}"]
