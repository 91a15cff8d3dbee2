"""Producer ids that would collide on the source are reported before anything is changed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from drctl.app.failback import producer_id_conflicts
from drctl.app.link_reader import ClusterLinkReader
from drctl.config.link import Link
from drctl.config.loading import read
from drctl.model.errors import Unreachable
from drctl.model.finding import Finding, Status
from drctl.model.producer_ids import Producer, Producers
from drctl.model.topology import TopicPartition
from drctl.steps.failback import OVERRIDABLE
from tests.failback.failback_orders import PLACE, SILENT, in_order_to_d, judged

OURS, OTHERS = Producer(7, 0, 41, 100), Producer(7, 0, 3, 90)
REVERSE_LINK = {
    "clusters": {name: {"bootstrap": f"{name}:1"} for name in ("primary", "secondary")},
    "links": {"home": {"from": "secondary", "to": "primary", "topics": ["orders"]}},
}


@dataclass(frozen=True)
class Remembered:
    """Producer ids in the partitions of a cluster; a text says why they are unknown."""

    producers: Mapping[TopicPartition, tuple[Producer, ...]] | str

    def in_use(self, partitions: Collection[TopicPartition]) -> Producers:
        if isinstance(self.producers, str):
            raise Unreachable(self.producers)
        return {place: self.producers.get(place, ()) for place in partitions}


@dataclass(frozen=True)
class MemoryReader:
    link: Link
    clusters: Mapping[str, Remembered]

    def producer_ids(self, name: str) -> Remembered:
        return self.clusters[name]


def findings_of(
    on_secondary: tuple[Producer, ...] | str,
    on_primary: tuple[Producer, ...] | str,
    **changed: object,
) -> tuple[Finding, ...]:
    link = read(yaml.safe_dump(REVERSE_LINK), Path("x.yaml")).link("home")
    ids = {"secondary": on_secondary, "primary": on_primary}
    clusters = {n: Remembered(p if isinstance(p, str) else {PLACE: p}) for n, p in ids.items()}
    facts = judged(in_order_to_d(), **changed).seen.facts
    return producer_id_conflicts(cast("ClusterLinkReader", MemoryReader(link, clusters)), facts)


def test_producer_ids_issued_by_both_clusters_block() -> None:
    (found,) = findings_of((OURS,), (OTHERS,))
    assert (found.check, found.status) == ("producer-ids-collide", Status.FAIL)
    assert found.reason == "1 producer id is used on both clusters"
    assert found.check in OVERRIDABLE, (
        "the precheck cannot be overridden although producers may restart"
    )


def test_producer_ids_of_one_cluster_do_not_block() -> None:
    (found,) = findings_of((OURS,), (Producer(8, 0, 3, 90),))
    assert found.status is Status.OK


def test_unknown_producer_ids_are_reported() -> None:
    (found,) = findings_of((OURS,), "cluster primary did not answer")
    assert (found.status, "did not answer" in found.reason) == (Status.NOT_CHECKED, True)
    assert findings_of((OURS,), (OTHERS,), on_source=SILENT) == (), (
        "an unreachable source is reported twice"
    )
