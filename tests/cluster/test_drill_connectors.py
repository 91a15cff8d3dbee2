"""`drctl drill` with faults of source connectors: MirrorMaker 2 and Debezium on two workers."""

import json
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from drctl.artifacts.jars import resolve
from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base
from drctl.lab.status import look
from drctl.lab.waiting import Patience
from tests.cluster.drill_stage import GO, SMALL, Stage
from tests.cluster.isolated_connectors import ROUTER
from tests.cluster.lab_link import Site, drctl_of, site_on
from tests.cluster.link_command import soon
from tests.connect.postgres import PASSWORD, Postgres, connector, postgres
from tests.connect.shop import event_of
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.timeout(900)]

PLUGIN = "debezium-postgres"
TOPIC = "flights-shop.orders"
"""The lab's replicator may write topics with this prefix."""


class TwoWorkers(Stage):
    """A lab with two Connect workers in one group, which also run Debezium's connector `shop`.

    Attributes:
        orders: rows of the table.
    """

    def __init__(self, site: Site, database: Postgres) -> None:
        urls = [worker.url for worker in site.lab.parts.workers]
        moving = {"names": ["shop"], "from": {"connect": urls}, "to": {"connect": urls}}
        super().__init__(site, source_connectors=moving)
        self.secondary, self.database, self.orders = site.secondary, database, 0
        self.secondary.create_topic(TOPIC)
        self.insert(10)
        routed = {"transforms_route_type": ROUTER, "transforms_route_regex": ".*"}
        routed |= {"transforms": "route", "transforms_route_replacement": TOPIC}
        # The lab's workers only convert bytes; Debezium's headers are text.
        routed |= {"header_converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}
        with closing(site.lab.parts.worker.client()) as client:
            client.put_config("shop", connector(database.port, PASSWORD, **routed))
        self.await_orders()
        self.insert(1)
        self.await_orders()

    def insert(self, count: int) -> None:
        """Insert this many orders."""
        first, self.orders = self.orders + 1, self.orders + count
        self.database.insert(first, count)

    def events(self) -> Counter[tuple[str, int]]:
        """Return the events of each order, as a plain consumer reads them."""
        held = read_topic(self.secondary.lab_cluster, TOPIC)
        return Counter(event_of(json.loads(value)) for value in held.values())

    def await_orders(self) -> None:
        """Wait until Kafka has an event of every order."""
        there = lambda: len({n for _, n in self.events()}) == self.orders  # noqa: E731
        with closing(self.lab.parts.worker.client()) as client:
            assert Patience.of(60).wait_until(there), client.status("shop")

    def continues(self) -> None:
        """Assert that the connector captures new orders without another snapshot."""
        before = self.events()
        self.insert(5)
        self.await_orders()
        again = {op for (op, _), count in (self.events() - before).items() if count}
        assert again == {"c"}
        assert look(self.lab).to_json()["answering"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWorkers]:
    lab = Lab(tmp_path_factory.mktemp("two-workers") / "lab")
    base = free_port_base(random.Random())
    with ExitStack() as opened:
        opened.callback(lab.down)
        lab.up(LabSettings(port_base=base, heap_mb=384, workers=2))
        folder = lab.root / "connect" / "plugins" / PLUGIN
        folder.mkdir()
        for jar in resolve(PLUGIN, progress=QUIET.info):
            (folder / jar.name).symlink_to(jar)
        lab.signal("connect", signal.SIGKILL)
        lab.start("connect")
        clusters = [ClusterUnderTest(lab.cluster(name)) for name in ("primary", "secondary")]
        for cluster in clusters:
            opened.callback(cluster.close)
        new_drctl = drctl_of(*clusters, lambda: tmp_path_factory.mktemp("drctl"))
        site = opened.enter_context(site_on(lab, *clusters, new_drctl))
        database = opened.enter_context(postgres(base + 90))
        yield TwoWorkers(site, database)


def test_the_tasks_of_a_killed_worker_are_taken_over(stage: TwoWorkers) -> None:
    done = stage.json(*GO, *stage.fault("kill-worker"), code=0)
    assert (done["verdict"], done["mode"], done["inject"]) == ("passed", "planned", "kill-worker")
    moved = {each["connector"]: (each["before"], each["after"]) for each in done["takeovers"]}
    killed, other = moved["shop"]
    workers = {worker.url.removeprefix("http://") for worker in stage.lab.parts.workers}
    assert {killed, other} == workers
    assert set(moved.values()) == {(killed, other)}
    assert all(0 < each["seconds"] < 120 for each in done["takeovers"])
    assert (done["rpo"]["missing"], done["translation"]["skipped"]) == (0, 0)
    assert (done["untouched"]["differences"], done["cleaned"]["left"]) == ([], [])
    stage.continues()


def test_restarted_tasks_run_again(stage: TwoWorkers) -> None:
    names = ("mm2-source", "mm2-checkpoint", "mm2-heartbeat", "shop")
    with closing(stage.lab.parts.worker.client()) as client:
        # The workers of a lab that has just started still assign tasks.
        soon(lambda: all(client.status(name).all_in("RUNNING") for name in names))
    done = stage.json(*GO, *stage.fault("restart-tasks"), code=0)
    assert (done["verdict"], done["mode"]) == ("passed", "planned")
    assert {"shop", "mm2-source"} == {each["connector"] for each in done["takeovers"]}
    assert (done["rpo"]["missing"], done["untouched"]["differences"]) == (0, [])
    stage.continues()


def test_a_connector_that_does_not_run_is_named_before_the_drill(stage: TwoWorkers) -> None:
    with closing(stage.lab.parts.worker.client()) as client:
        client.stop("shop")
        soon(lambda: client.status("shop").all_in("STOPPED"))
        try:
            refused = stage.json(*SMALL, *stage.fault("restart-tasks"), code=3)
            assert refused["error"]["message"] == (
                "connector shop must run before the fault: it is STOPPED"
            )
        finally:
            client.resume("shop")
            soon(lambda: client.status("shop").all_in("RUNNING"))
