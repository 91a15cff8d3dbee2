"""Real Debezium over a real PostgreSQL moves with the applications, to another Connect cluster."""

import json
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from drctl.lab.starting import free_port_base
from tests.cluster.failback_stage import BACK
from tests.cluster.failover_stage import PARTITIONS
from tests.cluster.isolated_connectors import ROUTER
from tests.cluster.isolated_failbacks import OwnFailback
from tests.cluster.lab_link import Site
from tests.cluster.link_command import GO, soon, steps_of
from tests.connect.postgres import PASSWORD, Postgres, connector, postgres
from tests.connect.shop import event_of
from tests.connect.workers import PluginWorker, worker
from tests.kafka.members import commit
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.timeout(900)]

HAD = 20
"""Orders in the table when the connector starts: its snapshot."""


class MovingShop(OwnFailback):
    """A table of orders, and connector `shop` on one Connect cluster per Kafka cluster.

    Attributes:
        orders: number of orders in the table.
    """

    def __init__(self, site: Site, database: Postgres, folder: Path) -> None:
        self.database, self.orders, self.folder = database, 0, folder
        topic = site.new_topic(PARTITIONS)
        self.workers = {each.name: self._worker(each, site, topic) for each in site.clusters}
        places = [{"connect": each.url} for each in self.workers.values()]
        moving = {"names": ["shop"], "from": places[0], "to": places[1]}
        policy = {"max_lag_records": 1_000_000}
        super().__init__(site, topic, policy=policy, source_connectors=moving)
        self.direct_to("primary")
        routed = {"transforms_route_type": ROUTER, "transforms_route_regex": ".*"}
        config = connector(
            database.port,
            PASSWORD,
            transforms="route",
            transforms_route_replacement=topic,
            **routed,
        )
        for each in self.workers.values():
            with closing(each.client()) as client:
                client.create_stopped("shop", config)
        places = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
        commit(site.primary.properties(), self.group, *places)
        self.insert(HAD)
        with closing(self.workers["primary"].client()) as client:
            soon(lambda: "shop" in client.statuses())
            client.resume("shop")
        self.await_orders(self.secondary)
        # Otherwise Connect may not have stored that the snapshot completed, and it would be
        # repeated.
        self.insert(1)
        self.await_orders(self.secondary)
        soon(self.position_after_snapshot)

    def _worker(self, cluster: ClusterUnderTest, site: Site, topic: str) -> PluginWorker:
        name = f"debezium-{cluster.name}-{topic}"
        port = self.database.port + 1 + site.clusters.index(cluster)
        folder = self.folder / f"{cluster.name}-{port}-{len([*self.folder.iterdir()])}"
        folder.mkdir()
        kept = [f"{name}-{kind}" for kind in ("config", "offset", "status")]
        site.opened.callback(cluster.delete_topics, kept)
        made = worker(name, folder, port, cluster, plugin="debezium-postgres")
        site.opened.callback(made.program.end)
        return made

    def restart_worker(self, cluster: ClusterUnderTest) -> None:
        """Restart a worker of the cluster's group, with its stored state."""
        self.workers[cluster.name] = self._worker(cluster, self.site, self.topic)

    def insert(self, count: int) -> None:
        """Insert this many orders."""
        first, self.orders = self.orders + 1, self.orders + count
        self.database.insert(first, count)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Insert orders during the block."""
        stop = threading.Event()

        def work() -> None:
            while not stop.wait(0.2):
                self.insert(1)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(60)

    def events(self, cluster: ClusterUnderTest) -> Counter[int]:
        """Return the number of events of each order that a plain consumer reads."""
        found = Counter[int]()
        for value, count in self.all_of(cluster).items():
            found[event_of(json.loads(value))[1]] += count
        return found

    def await_orders(self, cluster: ClusterUnderTest) -> None:
        """Wait until the cluster has an event of every order."""
        soon(lambda: len(self.events(cluster)) == self.orders, f"{cluster.name}: events missing")

    def each_once(self, cluster: ClusterUnderTest) -> None:
        """Assert that the cluster gets every order once: no duplicate, and no new snapshot."""
        self.await_orders(cluster)
        assert set(self.events(cluster).values()) == {1}

    def position_after_snapshot(self) -> bool:
        with closing(self.workers["primary"].client()) as client:
            kept = client.offsets("shop")
        return bool(kept) and not any("snapshot" in str(each["offset"]) for each in kept)

    def shops(self) -> list[str]:
        """The state of the connector at the primary's workers, and at the secondary's."""
        found = []
        for each in self.workers.values():
            with closing(each.client()) as client:
                found.append(client.status("shop").state)
        return found


@pytest.fixture
def shop(site: Site, tmp_path: Path) -> MovingShop:
    database = site.opened.enter_context(postgres(free_port_base(random.Random())))
    return site.keep(MovingShop(site, database, tmp_path))


def moved(done: dict[str, Any]) -> list[tuple[str, str]]:
    """What the report says of each connector."""
    return [(each["connector"], each["prospect"]) for each in done["source_connectors"]]


def test_a_planned_failover_and_a_failback_neither_lose_nor_repeat_events(shop: MovingShop) -> None:
    with shop.busy():
        done = shop.json("failover", *GO, code=0)
        assert shop.shops() == ["STOPPED", "RUNNING"]
    statuses = steps_of(done, "status")
    moves = ("stop-source-connectors", "move-source-positions", "resume-source-connectors")
    assert {statuses[each] for each in moves} == {"done"}
    assert moved(shop.json("report", code=0)) == [("shop", "resumes")]
    shop.insert(10)
    shop.each_once(shop.secondary)
    assert shop.orders > shop.events(shop.primary).total(), (
        "the connector on the secondary sent no event"
    )
    with shop.busy():
        shop.completed_failback(*BACK)
        assert shop.shops() == ["RUNNING", "STOPPED"]
    assert moved(shop.json("report", code=0)) == [("shop", "resumes")]
    shop.insert(10)
    shop.each_once(shop.primary)


def test_positions_are_moved_with_the_old_workers_and_cluster_lost(shop: MovingShop) -> None:
    tracked = shop.json("offsets", "track", "--once", *GO, code=0)
    assert tracked["totals"]["source_connectors"] == 1
    shop.workers["primary"].program.end()
    shop.lab.signal("primary", signal.SIGKILL)
    shop.insert(10)
    done = shop.json("failover", "--mode", "unplanned", *GO, code=1)
    statuses = steps_of(done, "status")
    assert statuses["stop-source-connectors"] == "outstanding"
    assert statuses["move-source-positions"] == statuses["resume-source-connectors"] == "done"
    assert moved(shop.json("report", code=0)) == [("shop", "resumes-with-duplicates")]
    shop.insert(10)
    shop.each_once(shop.secondary)

    shop.lab.start("primary")
    shop.restart_worker(shop.primary)
    with shop.busy():
        shop.completed_failback(*BACK)
        assert shop.shops() == ["RUNNING", "STOPPED"]
    shop.insert(10)
    shop.each_once(shop.primary)
