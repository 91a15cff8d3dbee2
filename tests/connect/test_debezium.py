"""Real Debezium on a real PostgreSQL: a crash, another Connect cluster, a lost position."""

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drctl.connect.client import ConnectRejected
from drctl.connectors.diagnosis import Cause, explain
from drctl.lab.lab import Lab
from drctl.lab.starting import free_port_base
from drctl.lab.waiting import Patience
from tests.connect.postgres import PASSWORD, USER, Postgres, connector, postgres
from tests.connect.shop import DEADLINE_S, Shop, command_on
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.endpoints, pytest.mark.timeout(400)]

TOPIC = "shop.public.orders"
HAD = 20
"""Orders in the table when the connector is created: they arrive as a snapshot."""
AWAY_S = 20
"""Longer than a worker's session with its group (10 s)."""


@dataclass
class PostgresShop(Shop):
    """A shop whose orders are in PostgreSQL."""

    database: Postgres = field(kw_only=True)


@pytest.fixture(scope="module")
def shop(
    secondary: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PostgresShop]:
    """A running connector whose snapshot is complete."""
    folder: Path = tmp_path_factory.mktemp("debezium")
    port = free_port_base(random.Random())
    with postgres(port) as database:
        config = connector(port, PASSWORD)
        command = command_on(secondary, folder)
        opened = PostgresShop(
            secondary, command, folder, port, config, TOPIC, "debezium-postgres", database=database
        )
        opened.start("debezium-a")
        with opened.closing():
            opened.insert(HAD)
            opened.capture()
            yield opened


def test_a_wrong_password_is_refused(shop: PostgresShop) -> None:
    with closing(shop.worker.client()) as client:
        # If the password changes later, Debezium retries forever and stays RUNNING.
        refused = f'password authentication failed for user "{USER}"'
        with pytest.raises(ConnectRejected, match=refused) as caught:
            client.put_config("refused", connector(shop.port, "wrong"))
    assert explain(caught.value.message).cause is Cause.AUTHENTICATION
    assert shop.command.json("status", "--connect", shop.worker.url)["failed"] == 0


def test_the_retry_settings_of_the_connector_are_shown(shop: PostgresShop) -> None:
    shown = shop.retries()
    assert shown["errors.max.retries"] == ("0", False)
    assert shown["slot.max.retries"] == ("6", True)
    assert shown["slot.retry.delay.ms"] == ("10000", True)
    text = shop.command("status", "--connect", shop.worker.url).stdout
    assert "shop: errors.max.retries=0, errors.retry.delay.max.ms=60000 (default)" in text


def test_doctor_judges_the_position_and_its_slot(shop: PostgresShop, lab: Lab) -> None:
    found = shop.doctor(lab)
    status, reason = found["source-connector-positions"]
    assert (status, reason.partition("and ")[2]) == (
        "ok",
        "its replication slot keeps the log from that position on",
    )
    assert found["source-connector-retries"][0] == "warn"
    assert shop.defaults() == {
        "errors.max.retries": "-1",
        "retriable.restart.connector.wait.ms": "10000",
        "snapshot.mode": "initial",
        "slot.name": "debezium",
        "slot.drop.on.stop": "false",
    }


def test_after_a_crash_another_connect_cluster_continues_without_a_new_snapshot(
    shop: PostgresShop, tmp_path: Path
) -> None:
    before = Counter(shop.events())
    new = shop.insert(10)
    shop.await_orders()
    file = tmp_path / "shop.json"
    saved = ("offsets", "export", "--output-file", str(file), "--connect", shop.worker.url)
    (kept,) = shop.command.json(*saved)["connectors"]
    assert kept["offsets"][0]["partition"] == {"server": "shop"}
    shop.worker.program.end()
    new |= shop.insert(10)
    shop.start("debezium-b")
    with closing(shop.worker.client()) as client:
        client.create_stopped("shop", shop.connector)
        assert Patience.of(DEADLINE_S).wait_until(lambda: "shop" in client.statuses())
        moving = ("offsets", "apply", "--from", str(file), "--connect", shop.worker.url)
        applied = shop.command.json(*moving, "--execute", "--yes")
        assert [each["outcome"] for each in applied["lines"]] == ["written"]
        client.resume("shop")
    shop.await_orders()
    assert set(Counter(shop.events()) - before) == new, "the snapshot was repeated"


def test_a_worker_that_is_stopped_properly_continues_without_a_duplicate(
    shop: PostgresShop,
) -> None:
    before = Counter(shop.events())
    shop.stop()
    new = shop.insert(5)
    shop.start(shop.worker.name)
    shop.await_orders()
    assert Counter(shop.events()) - before == dict.fromkeys(new, 1)


def test_events_repeated_after_a_crash_are_found_by_their_position(shop: PostgresShop) -> None:
    repeated = len(shop.events()) - len(set(shop.events()))
    before = shop.counts(code=1 if repeated else 0)
    assert (before["events"], before["repeated"]) == (len(shop.events()), repeated)
    shop.stop()
    shop.start(shop.worker.name, kept_every_ms=600_000)
    shop.worker.await_task("shop", "RUNNING")
    new = shop.insert(10)
    shop.await_orders()
    shop.worker.program.process.kill()
    shop.worker.program.process.wait(DEADLINE_S)
    shop.start(shop.worker.name)
    twice = dict.fromkeys(new, 2)
    sent = lambda: {e: n for e, n in Counter(shop.events()).items() if n > 1}  # noqa: E731
    assert Patience.of(DEADLINE_S).wait_until(lambda: twice.items() <= sent().items()), sent()
    found = shop.counts(code=1)
    assert found["events"] == before["events"] + 20
    assert found["repeated"] == before["repeated"] + 10


def test_kafka_is_away_for_longer_than_a_session_lasts(shop: PostgresShop, lab: Lab) -> None:
    """No record is lost, no snapshot is repeated, and the worker responds throughout."""
    before = Counter(shop.events())
    lab.signal("secondary", signal.SIGSTOP)
    try:
        new = shop.insert(5)
        time.sleep(AWAY_S)  # the outage itself is the fault, so there is no condition to wait for
        (seen,) = shop.command.json("status", "--connect", shop.worker.url, code=0)["clusters"]
        (connector_seen,) = seen["connectors"]
        states = [part["state"] for part in connector_seen["parts"]]
        assert (connector_seen["name"], states) == ("shop", ["RUNNING", "RUNNING"])
    finally:
        lab.signal("secondary", signal.SIGCONT)
    assert Patience.of(DEADLINE_S).wait_until(shop.answers)
    shop.await_orders()
    shop.worker.await_task("shop", "RUNNING")
    assert set(Counter(shop.events()) - before) == new
    assert shop.command.json("status", "--connect", shop.worker.url)["failed"] == 0


def test_a_lost_slot_and_its_cost(shop: PostgresShop) -> None:
    url = ("--connect", shop.worker.url)
    with closing(shop.worker.client()) as client:
        client.stop("shop")
        assert Patience.of(DEADLINE_S).wait_until(lambda: not client.status("shop").tasks)
        assert shop.database.slots() == ["shop"]
        shop.database.sql("SELECT pg_drop_replication_slot('shop')")
        shop.insert(5)
        client.resume("shop")
        shop.worker.await_task("shop", "FAILED")
    (line,) = shop.command.json("recover", *url, code=3)["lines"]
    assert line["explained"]["cause"] == "logs-purged"
    remedy = ("recover", *url, "--connector", "shop", "--remedy", "reset", "--min-uptime", "2s")
    (line,) = shop.command.json(*remedy)["lines"]
    assert "every row is sent again" in line["consequence"]
    done = shop.command.json(*remedy, "--execute", "--yes")
    assert done["remedy_result"]["message"] == "shop runs, and starts from scratch"
    before = json.loads(Path(done["remedy_result"]["before"]).read_text(encoding="utf-8"))
    assert before["connectors"][0]["offsets"][0]["offset"]["lsn"] > 0
    again = {("r", number) for number in range(1, shop.orders + 1)}
    assert Patience.of(DEADLINE_S).wait_until(lambda: again <= set(shop.events()))
