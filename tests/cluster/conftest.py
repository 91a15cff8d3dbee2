"""The topics that all tests of this room look at, and the runs of `drctl gap` over them."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.cluster.command import Drctl
from tests.cluster.filling import Clock
from tests.cluster.linked_traps import LINK_CASES, LinkCase
from tests.cluster.scenario import Analysed, Filled, Scenario
from tests.cluster.standalone import Standalone, standalone
from tests.cluster.traps import TRAPS
from tests.lab.cluster_under_test import ClusterUnderTest

Sections = Mapping[str, Any]
NewDrctl = Callable[..., Drctl]

SPARK = {"master": "local[2]"}
"""A section of drctl.yaml that has the few records of a test compared by Spark."""

WAYS: Mapping[str, Sections] = {"direct": {}, "spark": {"spark": SPARK}}
"""Sections of drctl.yaml by what then compares the records."""


def cluster_section(cluster: ClusterUnderTest, user: str = "admin") -> dict[str, Any]:
    """A cluster of the lab in drctl.yaml; the password is read from the lab's own file."""
    properties: dict[str, Any] = cluster.lab_cluster.public_properties(user)
    bootstrap = properties.pop("bootstrap.servers")
    properties["sasl.password"] = f"${{file:{cluster.lab_cluster.password_file(user)}}}"
    return {"bootstrap": bootstrap, "properties": properties}


def slow(section: Sections, seconds: int) -> dict[str, Any]:
    """The same cluster, answering a fetch only after this time: a scan of any topic lasts as long.

    Brokers wait for bytes that will not come.
    """
    waiting = {"fetch.min.bytes": 100_000_000, "fetch.wait.max.ms": seconds * 1000}
    return {**section, "properties": {**section["properties"], **waiting}}


def drctl_of(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, new_folder: Callable[[], Path]
) -> NewDrctl:
    """Makes drctls between two clusters, each in a folder of its own.

    Where `spark` is given, Spark compares, however few the records are; else drctl itself does.
    """

    def make(links: Sections, **sections: Any) -> Drctl:
        folder = new_folder()
        if "spark" in sections:
            sections["spark"] = {"from_offsets": 0, **sections["spark"]}
        document = {
            "clusters": {
                "primary": cluster_section(primary),
                "secondary": cluster_section(secondary),
            },
            "links": dict(links),
            **sections,
        }
        config = folder / "drctl.yaml"
        config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return Drctl(folder, config)

    return make


@pytest.fixture(scope="session")
def clock() -> Clock:
    """Three hours ago."""
    return Clock(int(time.time()) * 1000 - 3 * 3_600_000)


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Spark's own master with two workers."""
    with standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture(scope="session")
def new_drctl(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    tmp_path_factory: pytest.TempPathFactory,
) -> NewDrctl:
    """A drctl with a drctl.yaml for the lab; what is given replaces whole sections."""
    return drctl_of(primary, secondary, lambda: tmp_path_factory.mktemp("drctl"))


@pytest.fixture(scope="session")
def filled(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock
) -> Callable[[Scenario], Filled]:
    """Fills the clusters with a scenario and reads it with a plain consumer."""

    def fill(scenario: Scenario) -> Filled:
        scenario.fill(primary, secondary, clock)
        return Filled(scenario, *scenario.read(primary, secondary))

    return fill


@pytest.fixture(scope="session")
def analysed(new_drctl: NewDrctl) -> Callable[[Filled, str], Analysed]:
    """Runs `drctl gap` over what the clusters were filled with."""

    def analyse(filled: Filled, way: str) -> Analysed:
        ended = new_drctl({"main": filled.scenario.link}, **WAYS[way]).gap()
        assert ended.stdout, ended.stderr
        return Analysed(filled.scenario, ended, ended.document(), filled.source, filled.target)

    return analyse


def new_prefix() -> str:
    """What the names of a scenario's topics begin with."""
    return f"t{uuid4().hex[:8]}."


@pytest.fixture(scope="session")
def filled_traps(filled: Callable[[Scenario], Filled]) -> Filled:
    """All traps of an ordinary link."""
    return filled(Scenario(new_prefix(), TRAPS, {"ignore_headers": ["trace"]}))


@pytest.fixture(scope="session")
def traps(filled_traps: Filled, analysed: Callable[[Filled, str], Analysed]) -> Analysed:
    """What drctl says of them without Spark."""
    return analysed(filled_traps, "direct")


@pytest.fixture(scope="session")
def sparks_traps(filled_traps: Filled, analysed: Callable[[Filled, str], Analysed]) -> Analysed:
    """What it says with Spark."""
    return analysed(filled_traps, "spark")


@pytest.fixture(scope="session", params=LINK_CASES, ids=lambda case: case.name)
def linked(
    request: pytest.FixtureRequest,
    filled: Callable[[Scenario], Filled],
    analysed: Callable[[Filled, str], Analysed],
) -> Analysed:
    """What drctl says of the traps of a link that is out of the ordinary.

    Without Spark, which compares generated topics of such links in tests/spark.
    """
    case: LinkCase = request.param
    scenario = Scenario(new_prefix(), case.traps, case.settings, case.rename, case.by_partition)
    return analysed(filled(scenario), "direct")
