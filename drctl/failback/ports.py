"""Ports for observing a failback; none of them writes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from drctl.engine.ports import LinkReader
from drctl.model.health import HealthReader
from drctl.model.journal import JournalReader
from drctl.model.replication import ConnectorLister
from drctl.reconcile.progress import Key, Progress


class Workers(ConnectorLister, Protocol):
    """Reads the connectors of Connect workers."""

    def kafka_cluster_id(self) -> str:
        """The workers' own Kafka cluster, to which they write by default.

        Raises:
            Unreachable: no worker answered within the deadline.
        """

    def offsets(self, name: str) -> Sequence[Mapping[str, Any]]:
        """The source offsets of a connector.

        Raises:
            UsageError: no connector has this name.
            Unreachable: no worker answered within the deadline.
        """


Ends = tuple[frozenset[str], frozenset[str]]
"""Bootstrap servers of the cluster to read from and of the one to write to."""


@dataclass(frozen=True, slots=True)
class FailbackPorts:
    """The ports of a link; each is used by one thread at a time.

    Attributes:
        reader: the reader of the link's steps.
        forward: the workers that replicate the link; None if none are configured.
        reverse: the workers that replicate in the opposite direction; None if none are configured.
        brokers: of the link's source and target, as drctl.yaml has them.
        journal_copies: local journal copies, including those of other links.
        decisions: decisions of `drctl reconcile` that are stored on the target.
    """

    reader: LinkReader
    health: HealthReader
    forward: Workers | None
    reverse: Workers | None
    brokers: Ends
    journal: JournalReader
    journal_copies: JournalReader
    decisions: Callable[[], Mapping[Key, Progress]]
