"""A drctl.yaml whose source is where nobody listens, beside one whose source answers."""

from collections.abc import Mapping
from typing import Any

from tests.cluster.conftest import NewDrctl, cluster_section
from tests.cluster.offsets_command import OffsetsCommand
from tests.kafka.tls_broker import free_ports
from tests.lab.cluster_under_test import ClusterUnderTest


def alive_and_silent(
    new_drctl: NewDrctl,
    clusters: tuple[ClusterUnderTest, ClusterUnderTest],
    link: Mapping[str, Any],
) -> tuple[OffsetsCommand, OffsetsCommand]:
    """The same link from primary to secondary, seen before and after the primary was lost."""
    links = {"main": {"from": "primary", "to": "secondary", **link}}
    primary, secondary = map(cluster_section, clusters)
    gone = {**primary, "bootstrap": f"127.0.0.1:{free_ports(1)[0]}"}
    found = (
        new_drctl(links, clusters={"primary": source, "secondary": secondary})
        for source in (primary, gone)
    )
    alive, silent = (OffsetsCommand(drctl.config) for drctl in found)
    return alive, silent
