"""Topics that all tests of this package read, and runs of `drctl gap` on them."""

import time
from collections.abc import Callable, Iterator

import pytest

from bench.spark_standalone import Standalone, standalone
from drctl.lab.lab import Lab
from tests.cluster.failover_stage import Stage
from tests.cluster.filling import Clock, copies, fill, holding, rows
from tests.cluster.isolated_failbacks import OwnFailback
from tests.cluster.isolated_links import OwnLinks
from tests.cluster.lab_link import WAYS, NewDrctl, NewHalf, Site, drctl_of, new_prefix, site_on
from tests.cluster.linked_traps import LINK_CASES, LinkCase
from tests.cluster.scenario import Analysed, Filled, Scenario
from tests.cluster.traps import TRAPS
from tests.lab.cluster_under_test import ClusterUnderTest


@pytest.fixture
def site(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest, new_drctl: NewDrctl
) -> Iterator[Site]:
    with site_on(lab, primary, secondary, new_drctl) as made:
        yield made


@pytest.fixture
def stage(site: Site) -> Stage:
    """A topic that the lab's MirrorMaker 2 replicates."""
    return site.keep(Stage(site))


@pytest.fixture
def links(site: Site) -> OwnLinks:
    return site.keep(OwnLinks(site))


@pytest.fixture
def link(links: OwnLinks) -> Stage:
    """A link with a connector of its own."""
    return links.make()


@pytest.fixture
def failback(site: Site) -> OwnFailback:
    return site.keep(OwnFailback(site))


@pytest.fixture(scope="session")
def clock() -> Clock:
    """Timestamps from three hours ago on."""
    return Clock(int(time.time()) * 1000 - 3 * 3_600_000)


@pytest.fixture(scope="session")
def half(primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock) -> NewHalf:
    """Create a topic of which the target has only the first records."""

    def make(count: int, copied: int) -> str:
        name, records = f"{new_prefix()}half", rows(count)
        fill(primary, {name: holding(*records)}, clock)
        fill(secondary, {name: holding(*copies(records[:copied]))}, clock)
        return name

    return make


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A Spark standalone master with two workers."""
    with standalone(tmp_path_factory.mktemp("standalone")) as started:
        yield started


@pytest.fixture(scope="session")
def new_drctl(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, tmp_path_factory: pytest.TempPathFactory
) -> NewDrctl:
    """Create a drctl with a drctl.yaml for the lab; arguments replace whole sections."""
    return drctl_of(primary, secondary, lambda: tmp_path_factory.mktemp("drctl"))


@pytest.fixture(scope="session")
def filled(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, clock: Clock
) -> Callable[[Scenario], Filled]:
    """Write a scenario to the clusters, and read it with a plain consumer."""

    def fill(scenario: Scenario) -> Filled:
        scenario.fill(primary, secondary, clock)
        return Filled(scenario, *scenario.read(primary, secondary))

    return fill


@pytest.fixture(scope="session")
def analysed(new_drctl: NewDrctl) -> Callable[[Filled, str], Analysed]:
    """Run `drctl gap` on a scenario."""

    def analyse(filled: Filled, way: str) -> Analysed:
        ended = new_drctl({"main": filled.scenario.link}, **WAYS[way]).gap()
        assert ended.stdout, ended.stderr
        return Analysed(filled.scenario, ended, ended.document(), filled.source, filled.target)

    return analyse


@pytest.fixture(scope="session")
def filled_traps(filled: Callable[[Scenario], Filled]) -> Filled:
    """All traps of an ordinary link."""
    return filled(Scenario(new_prefix(), TRAPS, {"ignore_headers": ["trace"]}))


@pytest.fixture(scope="session")
def traps(filled_traps: Filled, analysed: Callable[[Filled, str], Analysed]) -> Analysed:
    """The result of drctl's own comparison of the traps."""
    return analysed(filled_traps, "direct")


@pytest.fixture(scope="session")
def sparks_traps(filled_traps: Filled, analysed: Callable[[Filled, str], Analysed]) -> Analysed:
    """The result of Spark's comparison of the traps."""
    return analysed(filled_traps, "spark")


@pytest.fixture(scope="session", params=LINK_CASES, ids=lambda case: case.name)
def linked(
    request: pytest.FixtureRequest,
    filled: Callable[[Scenario], Filled],
    analysed: Callable[[Filled, str], Analysed],
) -> Analysed:
    """The result for links with special settings.

    Compared without Spark; Spark compares generated topics of such links in tests/spark.
    """
    case: LinkCase = request.param
    scenario = Scenario(new_prefix(), case.traps, case.settings, case.rename, case.by_partition)
    return analysed(filled(scenario), "direct")
