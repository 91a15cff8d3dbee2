"""Prechecks of a failback between two sites that both accept writes."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from drctl.app.both_sites import OVERWRITTEN, _clients, _group_sync, _must_be_marked, _replication
from drctl.app.link_reader import ClusterLinkReader
from drctl.config.link import Link
from drctl.config.loading import read
from drctl.failback.blockers import CLIENTS_ON_SOURCE, LOST, REVERSE
from drctl.model.endpoints import EndpointState
from drctl.model.errors import Refused, Unreachable
from drctl.model.finding import Finding, Status
from drctl.model.topology import TopicPartition
from drctl.steps.failback import CYCLES
from tests.cluster.two_writers import TRANSFORMS
from tests.engine.connect_workers import CONNECT, Connector, Workers
from tests.engine.memory_clusters import Logs, Trace, record
from tests.failback.failback_orders import gap as found
from tests.failback.failback_orders import partition
from tests.report.gaps import gap, result, topic

PLACE = TopicPartition("orders", 0)
MIRROR = {"connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector"}
SITES = """
clusters: {a: {bootstrap: "x:1"}, b: {bootstrap: "y:1"}}
links:
  east:
    from: a
    to: b
    topics: [orders]
    origin_header: site
    endpoints: [{kind: file, path: one}, {kind: file, path: two}]
    replicator:
      kind: mirrormaker2
      connect: "http://c:1"
      connectors: {source: go, checkpoint: groups}
  west:
    from: b
    to: a
    topics: [orders]
    origin_header: site
    replicator: {kind: mirrormaker2, connect: "http://c:1", connectors: {source: back}}
"""


def east() -> Link:
    return read(SITES, Path("drctl.yaml")).link("east")


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that points to a cluster; None does not respond."""

    cluster: str | None

    def observe(self) -> EndpointState:
        if self.cluster is None:
            raise Unreachable("the file cannot be read", "check its path")
        return EndpointState("endpoint", self.cluster, f"points to {self.cluster}")


@dataclass
class Direction:
    """A link whose source has three records, all replicated."""

    link: Link = field(default_factory=east)
    config: dict[str, str] = field(default_factory=lambda: {**MIRROR, **TRANSFORMS})
    copied: int = 2
    checkpoint: dict[str, str] = field(default_factory=dict)
    endpoints: tuple[str | None, str | None] = ("b", "b")
    workers: Workers | None = None

    def topics(self) -> tuple[str, ...]:
        return ("orders",)

    def cluster_reader(self, name: str) -> Logs:
        logs = Logs(name, Trace())
        for key in ("1", "2", "3"):
            logs.append(PLACE, record(key))
        return logs

    def connectors(self) -> Workers:
        if self.workers is not None:
            return self.workers
        logs = self.cluster_reader("a")
        go = Connector(logs, logs, config=self.config, kept={PLACE: self.copied})
        made = {"go": go} if self.config else {}
        return Workers(Trace(), {**made, "groups": Connector(logs, logs, config=self.checkpoint)})

    def endpoint(self, number: int) -> Endpoint:
        return Endpoint(self.endpoints[number])


def by_check(found: Iterable[Finding]) -> dict[str, Finding]:
    return {each.check: each for each in found}


def reader(**attributes: Any) -> ClusterLinkReader:
    return cast("ClusterLinkReader", Direction(**attributes))


def test_a_direction_that_is_whole_and_marks_its_copies_has_no_finding() -> None:
    assert by_check(_replication(reader())) == {}


def test_a_source_that_ends_before_what_was_copied_has_lost_records() -> None:
    lost = by_check(_replication(reader(copied=3)))[LOST]
    assert (lost.status, lost.subject) == (Status.FAIL, "a")
    assert "1 partition ends before the last record that go has copied (orders-0)" in lost.reason


def test_a_connector_that_marks_nothing_or_is_missing_blocks_it() -> None:
    unmarked = by_check(_replication(reader(config=dict(MIRROR))))[CYCLES]
    assert "it replicates records that have header site" in unmarked.reason
    assert by_check(_replication(reader(config={})))[REVERSE].status is Status.FAIL


def test_another_replicator_is_not_judged() -> None:
    assert by_check(_replication(reader(config={"connector.class": "x.Other"}, copied=9))) == {}


@pytest.mark.parametrize(("value", "blocks"), [("true", True), ("false", False)])
def test_a_connector_that_commits_group_offsets_blocks_it(value: str, blocks: bool) -> None:
    findings = by_check(_group_sync(reader(checkpoint={"sync.group.offsets.enabled": value})))
    assert (OVERWRITTEN in findings) is blocks


def test_a_checkpoint_connector_may_be_missing_but_not_unreadable() -> None:
    assert by_check(_group_sync(reader(workers=Workers(Trace())))) == {}
    silent = Workers(Trace(silent={CONNECT}))
    assert by_check(_group_sync(reader(workers=silent)))[OVERWRITTEN].status is Status.FAIL


@pytest.mark.parametrize(
    ("endpoints", "status"),
    [
        (("b", "b"), None),
        (("b", "a"), None),
        (("a", None), Status.WARN),
        (("b", None), Status.WARN),
    ],
)
def test_clients_of_the_target_may_be_failed_back(
    endpoints: tuple[str | None, str | None], status: Status | None
) -> None:
    back = replace(cast("Any", east()), source="b", target="a")
    findings = by_check(_clients(reader(link=back, endpoints=endpoints)))
    assert (findings[CLIENTS_ON_SOURCE].status if findings else None) is status


def test_clients_that_are_all_there_would_be_fenced() -> None:
    back = replace(cast("Any", east()), source="b", target="a")
    assert (
        by_check(_clients(reader(link=back, endpoints=("a", "a"))))[CLIENTS_ON_SOURCE].status
        is Status.FAIL
    )


def test_copies_without_the_header_are_not_reconciled() -> None:
    """Ten have no marked copy; of these, four are on the target unmarked."""
    evidence = found(partition(unreplicated=10))
    plain = result(topic("orders", gap(0, 110, missing=10)))
    _must_be_marked(east(), evidence, plain)
    fewer = result(topic("orders", gap(0, 110, missing=6)))
    with pytest.raises(Refused, match=r"4 records of a are on b without header site \(orders-0: 4"):
        _must_be_marked(east(), evidence, fewer)


def test_records_written_between_the_comparisons_hide_no_copies() -> None:
    later = result(topic("orders", gap(0, 150, missing=46)))
    with pytest.raises(Refused, match="without header"):
        _must_be_marked(east(), found(partition(unreplicated=10)), later)
