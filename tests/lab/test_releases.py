"""A cluster of an older Kafka release that fails over to a newer one, and back."""

import logging
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient

from drctl.lab.lab import Lab
from drctl.lab.scenarios.lost_primary import play
from drctl.lab.scenarios.stage import Stage
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base
from tests.lab.test_scenario import small

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]
LOGGER = logging.getLogger(__name__)


def racks(admin: AdminClient) -> set[str | None]:
    """Racks of the brokers, as the cluster reports them."""
    return {node.rack for node in admin.describe_cluster(request_timeout=20).result().nodes}


def test_an_older_primary_is_lost_and_failed_back(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", LOGGER.info)
    try:
        mixed = LabSettings(
            free_port_base(Random()),
            kafka="3.9.1",
            secondary_kafka="4.3.1",
            heap_mb=384,
            racks=True,
        )
        lab.up(mixed)
        assert racks(lab.cluster("primary").admin()) == {"rack-1"}
        with (tmp_path / "shown").open("w", encoding="utf-8") as shown:
            stage = Stage(lab, tmp_path, LOGGER.info, ("--no-color",), shown)
            result = play(stage, small(mixed.mirrored))
        assert result.correct, result.summary
        command_lines = {
            name: " ".join(process.cmdline())
            for name in lab.parts.names
            if (process := lab.parts.part(name).process()) is not None
        }
        assert {name: "3.9.1" in words for name, words in command_lines.items()} == {
            "primary-1": True,
            "secondary-1": False,
            "connect": False,
        }
    finally:
        lab.down()
