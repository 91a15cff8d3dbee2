"""A cluster of an older Kafka release that fails over to a newer one, and back."""

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient

from drctl.kafka.connection import Connection
from drctl.kafka.survey import KafkaSurveyor
from drctl.lab.lab import Lab
from drctl.lab.scenarios.lost_primary import play
from drctl.lab.scenarios.stage import Stage as ScenarioStage
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base
from drctl.model.survey import BrokerFeatures, Capability
from tests.cluster.failover_stage import PARTITIONS, Stage
from tests.cluster.isolated_links import READ, RECORDS, OwnLinks, at_work, positions
from tests.cluster.lab_link import drctl_of, site_on
from tests.cluster.link_command import GO, soon, yes
from tests.lab.cluster_under_test import ClusterUnderTest
from tests.lab.test_scenario import small

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]
LOGGER = logging.getLogger(__name__)
OLD, NEW = "3.9.1", "4.3.1"
HALF = 20
"""Half of the number of records that are read at once."""
ANSWERS = {
    "consumers": ("consumers-known", "stop-consumers", "start-consumers", "verify"),
    "producers": ("producers-known",),
}
"""The questions of each runbook to people."""
BACK = {
    "from": "secondary",
    "to": "primary",
    "topics": ["test-.*"],
    "groups": ["orders-app-.*"],
    "replicator": {"kind": "none"},
}
"""A link in the opposite direction, with which consumers alone move back."""


def racks(admin: AdminClient) -> set[str | None]:
    """Racks of the brokers, as the cluster reports them."""
    return {node.rack for node in admin.describe_cluster(request_timeout=20).result().nodes}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A primary of an older release than the secondary and Connect."""

    lab = Lab(tmp_path_factory.mktemp("mixed") / "lab", LOGGER.info)
    base = free_port_base(Random())
    try:
        lab.up(LabSettings(base, kafka=OLD, secondary_kafka=NEW, heap_mb=384, racks=True))
        yield lab
    finally:
        lab.down()


@pytest.fixture
def links(mixed: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnLinks]:
    primary, secondary = (ClusterUnderTest(mixed.cluster(n)) for n in ("primary", "secondary"))
    new_drctl = drctl_of(primary, secondary, lambda: tmp_path_factory.mktemp("drctl"))
    with site_on(mixed, primary, secondary, new_drctl) as site:
        yield site.keep(OwnLinks(site))


def missing(lab: Lab) -> dict[str, set[Capability]]:
    """Return the features that each cluster's brokers do not have."""
    found = {}
    for name in ("primary", "secondary"):
        with KafkaSurveyor(Connection(name, lab.cluster(name).client_properties())) as surveyor:
            features = surveyor.features().values()
        assert all(isinstance(each, BrokerFeatures) for each in features)
        found[name] = {
            m for each in features if isinstance(each, BrokerFeatures) for m in each.missing
        }
    return found


def line(who: str, *more: str) -> tuple[str, ...]:
    """Return the command line of a runbook with all parameters."""
    return ("runbook", "run", f"move-{who}", *yes(*ANSWERS[who]), *more, *GO)


def moved(stage: Stage, who: str, link: str = "") -> None:
    ran = stage.run(*line(who), link=link)
    assert ran.code == 0, ran.stdout + ran.stderr


def grown(stage: Stage, partitions: int) -> None:
    """Add partitions on the source, and wait for them on the target."""
    stage.source.add_partitions(stage.topic, partitions)
    soon(lambda: len(stage.target.end_offsets(stage.topic)) == partitions)


@pytest.mark.nightly
def test_consumers_move_to_a_newer_release_first(links: OwnLinks) -> None:
    """They read the replicated topic while it grows; then producers move. Each record once."""
    stage = links.make()
    written = at_work(stage)
    moved(stage, "consumers")
    assert positions(stage) == dict.fromkeys(range(PARTITIONS), READ)
    read = stage.read(stage.target, most=HALF)
    grown(stage, PARTITIONS + 1)
    written += stage.written(RECORDS, "grown")
    assert stage.source.end_offsets(stage.topic)[PARTITIONS] > 0
    moved(stage, "producers")
    assert stage.directs_to("secondary")
    assert stage.write(3, "refused") == [], "a fenced producer could write"
    written += stage.write(HALF, "after", stage.target)
    left = len(written) - READ * PARTITIONS - len(read)
    read += stage.read(stage.target, most=left + 1, wait_for=left)
    assert len(read) == len(set(read)) == len(written) - READ * PARTITIONS
    assert set(read) < set(written)
    assert stage.all_of(stage.target) == Counter(written)


@pytest.mark.nightly
def test_producers_move_first(links: OwnLinks) -> None:
    """Consumers read the old cluster to the end, and continue with new records on the other."""
    stage = links.make()
    written = at_work(stage)
    moved(stage, "producers")
    after = stage.write(HALF, "after", stage.target)
    left = RECORDS - READ * PARTITIONS
    read = stage.read(stage.source, most=left + 1, wait_for=left)
    assert set(read) < set(written)
    assert len(read) == len(set(read)) == left
    moved(stage, "consumers")
    assert Counter(stage.read(stage.target, most=HALF + 1, wait_for=HALF)) == Counter(after)


@pytest.mark.nightly
def test_consumers_move_back_alone_and_all_clients_fail_back(links: OwnLinks) -> None:
    stage = links.make(reverse=True, beside={"back": BACK})
    written = at_work(stage)
    undone = yes("start-consumers.undo", "stop-consumers.undo")
    ran = stage.run(*line("consumers", "--answer", "verify=no", *undone))
    assert (ran.code, positions(stage)) == (3, {}), ran.stdout + ran.stderr
    moved(stage, "consumers")
    read = stage.read(stage.target, most=HALF)
    moved(stage, "consumers", "back")
    read += stage.read(stage.source, most=HALF)
    moved(stage, "consumers")
    moved(stage, "producers")
    written += stage.write(HALF, "after", stage.target)
    read += stage.read(stage.target, most=HALF)
    done = stage.json("failback", "--policy", "copy", *GO, code=0)
    assert done["status"] == "done"
    assert stage.directs_to("primary")
    written += stage.write(HALF, "home", stage.source)
    left = len(written) - READ * PARTITIONS - len(read)
    read += stage.read(stage.source, most=left + 1, wait_for=left)
    assert len(read) == len(set(read)) == len(written) - READ * PARTITIONS


@pytest.mark.nightly
def test_an_older_primary_is_lost_and_failed_back(mixed: Lab, tmp_path: Path) -> None:
    assert racks(mixed.cluster("primary").admin()) == {"rack-1"}
    assert missing(mixed) == {
        "primary": {Capability.CONSUMER_GROUPS, Capability.ELIGIBLE_LEADERS},
        "secondary": set(),
    }
    with (tmp_path / "shown").open("w", encoding="utf-8") as shown:
        stage = ScenarioStage(mixed, tmp_path, LOGGER.info, ("--no-color",), shown)
        result = play(stage, small(mixed.parts.settings.mirrored))
    assert result.correct, result.summary
    command_lines = {
        name: " ".join(process.cmdline())
        for name in mixed.parts.names
        if (process := mixed.parts.part(name).process()) is not None
    }
    assert {name: OLD in words for name, words in command_lines.items()} == {
        "primary-1": True,
        "secondary-1": False,
        "connect": False,
    }
