"""A link with one topic on two real clusters, whose unreplicated records are reconciled."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drctl.formats import provenance
from drctl.model.topology import Record
from drctl.reconcile.policy import QUARANTINE
from tests.cluster.command import Drctl
from tests.cluster.lab_link import Site, link_over
from tests.cluster.logs import read_logs
from tests.lab.cluster_under_test import ClusterUnderTest

START = 1_700_000_000_000

NewStage = Callable[..., "Stage"]
"""Called with the number of partitions and the `policy` of drctl.yaml."""


def record(number: int, partition: int = 0, **changes: Any) -> Record:
    held: dict[str, Any] = {"key": f"k{number}".encode(), "value": f"v{number}".encode()}
    return Record(partition, 0, START + number, **{**held, **changes})


class Stage:
    """A link with one topic, which both clusters have."""

    def __init__(
        self, drctl: Drctl, topic: str, primary: ClusterUnderTest, secondary: ClusterUnderTest
    ) -> None:
        self.drctl, self.topic = drctl, topic
        self.primary, self.secondary = primary, secondary
        self.quarantine = QUARANTINE + topic
        self._gaps = 0

    def gap(self, code: int = 1) -> str:
        """Run `drctl gap`; return the folder of its result."""
        self._gaps += 1
        out = str(self.drctl.folder / f"gap{self._gaps}")
        found = self.drctl.json("gap", "--scope", "full", "--out", out, code=code)
        assert found["complete"]
        return out

    def reconcile(self, *words: str, code: int = 0) -> dict[str, Any]:
        return self.drctl.json("reconcile", *words, code=code)

    def execute(self, *words: str, code: int = 0) -> dict[str, Any]:
        return self.reconcile(*words, "--execute", "--yes", code=code)

    def held(self, cluster: ClusterUnderTest, topic: str = "") -> dict[int, list[Record]]:
        """Return the committed records by partition."""
        topic = topic or self.topic
        return dict(read_logs(cluster, [topic])[topic].records)


@contextmanager
def new_stages(site: Site) -> Iterator[NewStage]:
    """Create stages; their quarantine topics are deleted at the end."""
    made: list[str] = []

    def make(partitions: int = 1, **policy: str) -> Stage:
        topic = site.new_topic(partitions)
        made.append(QUARANTINE + topic)
        link = link_over(topic, replicator={"kind": "none"})
        return Stage(site.new_drctl({topic: link}, policy=policy), topic, *site.clusters)

    yield make
    site.secondary.delete_topics(made)


def without_place(found: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Return partition, time, key, value and headers, without drctl's own."""
    return [
        (
            r.partition,
            r.timestamp_ms,
            r.key,
            r.value,
            tuple(h for h in r.headers if h[0] != provenance.HEADER),
        )
        for r in found
    ]


def origins(found: Sequence[Record]) -> list[int]:
    """Return the source offsets named in the provenance headers of these records."""
    headers = (value for r in found for name, value in r.headers if name == provenance.HEADER)
    return [provenance.decode(value).offset for value in headers]
