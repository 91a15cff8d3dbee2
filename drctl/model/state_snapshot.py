"""The state of clusters and connectors, recorded before anything is changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """The partitions of a topic, and the settings that are not broker defaults."""

    partitions: int
    replicas: int
    settings: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The state of a cluster; for anything that could not be read, the reason.

    Attributes:
        error: why it did not answer; empty if it did.
        ends: end offsets by partition.
        active: groups with active members.
        positions: committed offsets of each group, by partition.
    """

    error: str = ""
    cluster_id: str = ""
    topics: Mapping[str, TopicSnapshot | str] = field(default_factory=dict)
    ends: Mapping[str, int | str] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    positions: Mapping[str, Mapping[str, int] | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """The state of a connector and its stored offsets, or why they are unknown."""

    error: str = ""
    state: str = ""
    offsets: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The state of both clusters and of the connectors, by name."""

    clusters: Mapping[str, ClusterSnapshot] = field(default_factory=dict)
    connectors: Mapping[str, ConnectorSnapshot] = field(default_factory=dict)
