"""The lab that all tests share: two real clusters and MirrorMaker 2, started when first needed."""

import gc
import logging
import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from drctl.artifacts.jars import KAFKA, resolve
from drctl.config.secret import forget
from drctl.lab.cluster import answering_brokers
from drctl.lab.environment import describe
from drctl.lab.lab import Lab
from drctl.lab.processes import lab_mark, marked_processes
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base
from tests.depth import examples
from tests.lab.cluster_under_test import ClusterUnderTest

pytest_plugins = ["tests.side_by_side"]

# Neither a deadline nor a check of the speed: an example takes longer on a busy host. `make test`
# draws the same examples each time; the nightly checks set NEW_EXAMPLES and draw others.
settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=examples(100),
    derandomize="NEW_EXAMPLES" not in os.environ,
)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Collect garbage less often: 10,000 objects of 500 modules are alive."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude existing objects from garbage collection."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


class NewTopic(Protocol):
    """Creates a topic with a name of its own on one or both clusters.

    MirrorMaker 2 replicates it only if `mirrored` is set, and only from the primary.
    """

    def __call__(
        self,
        partitions: int = ...,
        *,
        target_partitions: int | None = ...,
        config: Mapping[str, str] | None = ...,
        target_config: Mapping[str, str] | None = ...,
        mirrored: bool = ...,
        on: tuple[str, ...] = ...,
        prefix: str = ...,
    ) -> str: ...


@pytest.fixture(scope="session", autouse=True)
def signals_as_on_a_terminal() -> None:
    """Restore signals: commands inherit ignored ones, as under nohup or in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def no_secrets_of_another_test() -> Iterator[None]:
    """Forget secrets, so that later tests do not mask them."""
    yield
    forget()


_SHARED: list[Lab] = []
_FAILED = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Both clusters, Connect and MirrorMaker 2; asserted to be down at the end.

    LAB_KAFKA=PRIMARY[:SECONDARY] chooses other Kafka releases.
    """
    root = tmp_path_factory.mktemp("lab") / "lab"
    opened = Lab(root)
    primary, _, secondary = os.environ.get("LAB_KAFKA", KAFKA).partition(":")
    releases = {"kafka": primary, "secondary_kafka": secondary}
    try:
        base = free_port_base(random.Random())
        opened.up(LabSettings(port_base=base, heap_mb=384, **releases))
        _SHARED.append(opened)
        yield opened
    finally:
        _SHARED.clear()
        opened.down()
        assert not marked_processes(lab_mark(root))
        assert not root.exists()


@pytest.fixture(scope="module", autouse=True)
def lab_is_whole(request: pytest.FixtureRequest) -> None:
    """Repair the lab after a file whose test failed with a part of it down."""
    failed, request.config.stash[_FAILED] = (
        request.config.stash.get(_FAILED, 0),
        request.session.testsfailed,
    )
    for opened in _SHARED if request.session.testsfailed > failed else ():
        for cluster in opened.parts.clusters:
            if answering_brokers(cluster.admin(), 10) < len(cluster.brokers):
                logging.getLogger(__name__).warning("%s does not answer", cluster.name)
                for broker in cluster.brokers:
                    if broker.part.process() is not None:
                        opened.signal(broker.name, signal.SIGKILL)
                opened.start(cluster.name)


@pytest.fixture(scope="session")
def primary(lab: Lab) -> Iterator[ClusterUnderTest]:
    """The cluster that replication reads from."""
    cluster = ClusterUnderTest(lab.cluster("primary"))
    yield cluster
    cluster.close()


@pytest.fixture(scope="session")
def secondary(lab: Lab) -> Iterator[ClusterUnderTest]:
    """The cluster that replication writes to."""
    cluster = ClusterUnderTest(lab.cluster("secondary"))
    yield cluster
    cluster.close()


@contextmanager
def topics(primary: ClusterUnderTest, secondary: ClusterUnderTest) -> Iterator[NewTopic]:
    """Creates topics, which are deleted at the end."""
    made: list[str] = []

    def make(
        partitions: int = 1,
        *,
        target_partitions: int | None = None,
        config: Mapping[str, str] | None = None,
        target_config: Mapping[str, str] | None = None,
        mirrored: bool = False,
        on: tuple[str, ...] = ("primary", "secondary"),
        prefix: str = "test-",
    ) -> str:
        name = f"{'flights-' if mirrored else prefix}{uuid4().hex[:8]}"
        made.append(name)
        # The target's topic first: MirrorMaker 2 would create a topic that only the source has.
        if "secondary" in on:
            there = config if target_config is None else target_config
            secondary.create_topic(name, target_partitions or partitions, there)
        if "primary" in on:
            primary.create_topic(name, partitions, config)
        return name

    try:
        yield make
    finally:
        for cluster in (primary, secondary):
            cluster.close()
            cluster.delete_topics(made)


@pytest.fixture
def new_topic(primary: ClusterUnderTest, secondary: ClusterUnderTest) -> Iterator[NewTopic]:
    """Creates topics, which are deleted after the test."""
    with topics(primary, secondary) as make:
        yield make


@pytest.fixture
def lab_yaml(lab: Lab, tmp_path: Path) -> Callable[..., Path]:
    """Write a drctl.yaml for the lab whose link has these topics."""

    def write(*topics: str) -> Path:
        path = tmp_path / "drctl.yaml"
        path.write_text(describe(lab.parts, topics), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="session")
def spark_jars() -> tuple[Path, ...]:
    """Spark's Kafka connector."""
    return resolve("spark-connector", progress=lambda _message: None)
