"""The state of clusters and connectors, written down before anything is changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """What a topic is made of; of its settings those that it does not have from its brokers."""

    partitions: int
    replicas: int
    settings: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster as it was; of whatever could not be looked at, the reason.

    Attributes:
        error: why it did not answer; empty where it did.
        ends: of the logs, by partition.
        active: groups in which somebody reads.
        positions: by group, the committed offset of each partition.
    """

    error: str = ""
    cluster_id: str = ""
    topics: Mapping[str, TopicSnapshot | str] = field(default_factory=dict)
    ends: Mapping[str, int | str] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    positions: Mapping[str, Mapping[str, int] | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """A connector as it was, with the offsets that Connect keeps; or why that is not known."""

    error: str = ""
    state: str = ""
    offsets: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """Both clusters and the connectors as they were, by name."""

    clusters: Mapping[str, ClusterSnapshot] = field(default_factory=dict)
    connectors: Mapping[str, ConnectorSnapshot] = field(default_factory=dict)
