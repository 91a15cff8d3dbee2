"""The topics that all tests of this room look at, and the runs of `drctl gap` over them."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.cluster.command import Drctl
from tests.cluster.filling import Clock
from tests.cluster.linked_traps import LINK_CASES
from tests.cluster.scenario import Analysed, Scenario
from tests.cluster.traps import TRAPS
from tests.lab.cluster_under_test import ClusterUnderTest

Sections = Mapping[str, Any]
NewDrctl = Callable[..., Drctl]


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


@pytest.fixture(scope="session")
def clock() -> Clock:
    """Three hours ago."""
    return Clock(int(time.time()) * 1000 - 3 * 3_600_000)


@pytest.fixture(scope="session")
def new_drctl(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    tmp_path_factory: pytest.TempPathFactory,
) -> NewDrctl:
    """A drctl with a drctl.yaml for the lab; what is given replaces whole sections."""

    def make(links: Sections, **sections: Any) -> Drctl:
        folder: Path = tmp_path_factory.mktemp("drctl")
        document = {
            "clusters": {
                "primary": cluster_section(primary),
                "secondary": cluster_section(secondary),
            },
            "links": dict(links),
            "spark": {"master": "local[2]"},
            **sections,
        }
        config = folder / "drctl.yaml"
        config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return Drctl(folder, config)

    return make


@pytest.fixture(scope="session")
def analysed(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock, new_drctl: NewDrctl
) -> Callable[[Scenario], Analysed]:
    """Fills the clusters with a scenario and runs `drctl gap` over it."""

    def analyse(scenario: Scenario) -> Analysed:
        scenario.fill(primary, secondary, clock)
        ended = new_drctl({"main": scenario.link}).gap()
        assert ended.stdout, ended.stderr
        source, target = scenario.read(primary, secondary)
        return Analysed(scenario, ended, ended.document(), source, target)

    return analyse


def new_prefix() -> str:
    """What the names of a scenario's topics begin with."""
    return f"t{uuid4().hex[:8]}."


@pytest.fixture(scope="session")
def traps(analysed: Callable[[Scenario], Analysed]) -> Analysed:
    """All traps of an ordinary link."""
    return analysed(Scenario(new_prefix(), TRAPS, {"ignore_headers": ["trace"]}))


@pytest.fixture(scope="session", params=LINK_CASES, ids=lambda case: case.name)
def linked(request: pytest.FixtureRequest, analysed: Callable[[Scenario], Analysed]) -> Analysed:
    """The traps of one link that is out of the ordinary."""
    case = request.param
    scenario = Scenario(new_prefix(), case.traps, case.settings, case.rename, case.by_partition)
    return analysed(scenario)
