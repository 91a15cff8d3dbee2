"""The shared lab for tests of a link, and the drctl.yaml that they write for it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import yaml

from drctl.lab.cluster import LabCluster
from drctl.lab.lab import Lab
from tests.cluster.command import Drctl
from tests.conftest import NewTopic, topics
from tests.lab.cluster_under_test import ClusterUnderTest

Sections = Mapping[str, Any]
NewDrctl = Callable[..., Drctl]
NewHalf = Callable[[int, int], str]
"""Called with the number of records and the number of replicated ones."""

SPARK = {"master": "local[2]"}
"""A section of drctl.yaml with which Spark compares even a few records."""

WAYS: Mapping[str, Sections] = {"direct": {}, "spark": {"spark": SPARK}}
"""Sections of drctl.yaml that select what compares the records, by name."""


def cluster_section(cluster: ClusterUnderTest, user: str = "admin") -> dict[str, Any]:
    """Return a cluster of the lab as a section of drctl.yaml."""
    return section_of(cluster.lab_cluster, user)


def section_of(cluster: LabCluster, user: str = "admin") -> dict[str, Any]:
    """Return the same section with the password from the lab's own file."""
    properties: dict[str, Any] = cluster.public_properties(user)
    bootstrap = properties.pop("bootstrap.servers")
    properties["sasl.password"] = f"${{file:{cluster.password_file(user)}}}"
    return {"bootstrap": bootstrap, "properties": properties}


def slow(section: Sections, seconds: int) -> dict[str, Any]:
    """Return the same cluster with slow fetches: a scan of any topic takes at least this long.

    Brokers wait for bytes that never arrive.
    """
    waiting = {"fetch.min.bytes": 100_000_000, "fetch.wait.max.ms": seconds * 1000}
    return {**section, "properties": {**section["properties"], **waiting}}


def drctl_of(
    primary: ClusterUnderTest, secondary: ClusterUnderTest, new_folder: Callable[[], Path]
) -> NewDrctl:
    """Create drctls for two clusters, each in a folder of its own.

    With `spark`, Spark compares however few the records are; otherwise drctl itself does.
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


def new_prefix() -> str:
    """Return a prefix for the names of a scenario's topics."""
    return f"t{uuid4().hex[:8]}."


def link_over(*names: str, **more: Any) -> dict[str, Any]:
    """Return a section of drctl.yaml."""
    return {"from": "primary", "to": "secondary", "topics": list(names), **more}


class Closes(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=Closes)


@dataclass(frozen=True)
class Site:
    """Both clusters of a lab, and what a test creates on them; it is removed at the end."""

    lab: Lab
    primary: ClusterUnderTest
    secondary: ClusterUnderTest
    new_drctl: NewDrctl
    new_topic: NewTopic
    opened: ExitStack

    @property
    def clusters(self) -> tuple[ClusterUnderTest, ClusterUnderTest]:
        return self.primary, self.secondary

    def keep(self, made: T) -> T:
        """Close this at the end."""
        self.opened.callback(made.close)
        return made


@contextmanager
def site_on(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest, new_drctl: NewDrctl
) -> Iterator[Site]:
    with topics(primary, secondary) as new_topic, ExitStack() as opened:
        yield Site(lab, primary, secondary, new_drctl, new_topic, opened)
