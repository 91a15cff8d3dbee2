"""Real Debezium for MongoDB: a killed worker, and a lost resume token."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from drctl.lab.starting import free_port_base
from drctl.lab.waiting import Patience
from tests.connect.mongo import TOPIC, Mongo, mongo, mongo_connector
from tests.connect.shop import DEADLINE_S, Shop, command_on
from tests.connect.workers import PluginWorker
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.nightly, pytest.mark.jvm, pytest.mark.timeout(400)]

HAD = 20
"""Orders in the collection when the connector is created: they arrive as a snapshot."""
GROUP = "debezium-mongo"
NEVER_MS = 600_000


@dataclass
class MongoShop(Shop):
    """A shop whose orders are in MongoDB."""

    database: Mongo = field(kw_only=True)


@pytest.fixture(scope="module")
def shop(
    secondary: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MongoShop]:
    """A running connector whose snapshot is complete."""
    folder: Path = tmp_path_factory.mktemp("mongodb")
    port = free_port_base(random.Random())
    with mongo(port, folder) as database:
        config, command = mongo_connector(port), command_on(secondary, folder)
        opened = MongoShop(
            secondary, command, folder, port, config, TOPIC, "debezium-mongodb", database=database
        )
        opened.start(GROUP)
        with opened.closing():
            opened.insert(HAD)
            opened.capture()
            yield opened


def owner(shop: Shop, workers: list[PluginWorker]) -> PluginWorker | None:
    """Return the worker that runs the connector's task; None if none does."""
    with closing(workers[0].client()) as client:
        tasks = client.status("shop").tasks
    running = [task.worker for task in tasks if task.state == "RUNNING"]
    return next((each for each in workers if running == [each.url.partition("//")[2]]), None)


def test_a_killed_worker_is_replaced_by_another_of_its_group_and_repeats_are_found(
    shop: MongoShop,
) -> None:
    before, first = shop.events(), shop.worker
    assert shop.counts(code=0)["events"] == len(before)
    # Both workers store positions only when they stop: events of the killed one are sent again.
    workers = [shop.start(GROUP, kept_every_ms=NEVER_MS) for _ in range(2)]
    shop.stop(first)
    assert Patience.of(DEADLINE_S).wait_until(lambda: owner(shop, workers) is not None)
    new = shop.insert(10)
    shop.await_orders()
    killed = owner(shop, workers)
    assert killed
    killed.program.end()
    workers.remove(killed)
    (shop.worker,) = workers
    assert Patience.of(DEADLINE_S).wait_until(lambda: owner(shop, workers) is shop.worker)
    once = shop.insert(5)
    shop.await_orders()
    expected = Counter(before) + Counter(dict.fromkeys(new, 2)) + Counter(dict.fromkeys(once, 1))
    assert Counter(shop.events()) == expected
    found = shop.counts(code=1)
    assert (found["events"], found["repeated"]) == (expected.total(), len(new))
    assert shop.command.json("status", "--connect", shop.worker.url)["failed"] == 0


def test_the_retry_settings_of_the_connector_are_shown(shop: MongoShop) -> None:
    assert shop.retries() == {
        "errors.max.retries": ("0", False),
        "errors.retry.delay.max.ms": ("60000", True),
        "errors.retry.timeout": ("0", True),
        "retriable.restart.connector.wait.ms": ("10000", True),
    }


def test_an_export_names_the_database_and_no_more_of_its_address(shop: MongoShop) -> None:
    file = str(shop.folder / "positions.json")
    saved = ("offsets", "export", "--output-file", file, "--connect", shop.worker.url)
    (kept,) = shop.command.json(*saved)["connectors"]
    assert kept["about"]["mongodb.connection.string"] == f"127.0.0.1:{shop.port}"


def test_doctor_judges_the_age_of_the_position(shop: MongoShop, lab: Lab) -> None:
    shop.insert(1)
    shop.await_orders()
    found = shop.doctor(lab)
    assert found["source-connector-positions"][0] == "not-checked", (
        "the position's age was judged without a configured retention"
    )
    assert found["source-connector-snapshots"][0] == "ok"
    assert found["source-connector-retries"] == (
        "warn",
        "it gives up at the first error of its database",
    )
    status, reason = shop.doctor(lab, shop=24)["source-connector-positions"]
    assert (status, reason.partition("and ")[2]) == ("ok", "its database keeps its log for 24 h")
    status, reason = shop.doctor(lab, shop=1e-6)["source-connector-positions"]
    assert (status, reason.partition(" is ")[0]) == ("fail", "its position")
    assert shop.defaults() == {
        "errors.max.retries": "-1",
        "retriable.restart.connector.wait.ms": "10000",
        "snapshot.mode": "initial",
    }


@pytest.mark.parametrize(
    ("code", "name", "cause", "remedy"),
    [
        (286, "ChangeStreamHistoryLost", "history-lost", ("reset",)),
        (260, "InvalidResumeToken", "invalid-resume-token", ("recreate", "--as", "shop-2")),
    ],
)
def test_a_lost_resume_token_and_its_cost(
    shop: MongoShop, code: int, name: str, cause: str, remedy: tuple[str, ...]
) -> None:
    url = ("--connect", shop.worker.url)

    def explained() -> dict[str, str]:
        shop.worker.await_task("shop", "FAILED")
        (line,) = shop.command.json("recover", *url, code=3)["lines"]
        found: dict[str, str] = line["explained"]
        return found

    shop.database.forget(code, name)
    shop.insert(5)
    failure = explained()
    assert failure["cause"] == cause, failure
    assert f"error {code} ({name})" in failure["evidence"]
    with closing(shop.worker.client()) as client:
        client.stop("shop")
        assert Patience.of(DEADLINE_S).wait_until(lambda: not client.status("shop").tasks)
        client.resume("shop")
    # The connector checks its position before it starts, and hides MongoDB's own error.
    failure = explained()
    assert failure["cause"] == "history-lost", failure
    words = ("recover", *url, "--connector", "shop", "--remedy", *remedy, "--min-uptime", "2s")
    (line,) = shop.command.json(*words)["lines"]
    assert "every row is sent again" in line["consequence"]
    before = Counter(shop.events())
    done = shop.command.json(*words, "--execute", "--yes")["remedy_result"]
    assert done["code"] == 0
    saved = json.loads(Path(done["before"]).read_text(encoding="utf-8"))
    (kept,) = (each for each in saved["connectors"] if each["name"] == "shop")
    assert kept["offsets"][0]["offset"]["resume_token"]
    again = dict.fromkeys([("r", number) for number in range(1, shop.orders + 1)], 1)
    sent = lambda: Counter(shop.events()) - before  # noqa: E731
    assert Patience.of(DEADLINE_S).wait_until(lambda: again.items() <= sent().items()), sent()
    new = shop.insert(3)
    shop.await_orders()
    assert sent() == Counter([*again, *new])
