"""The topics that all tests of this room look at, and the runs of `drctl gap` over them."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from tests.cluster.command import Drctl
from tests.cluster.filling import Clock
from tests.lab.cluster_under_test import ClusterUnderTest


def cluster_section(cluster: ClusterUnderTest, user: str = "admin") -> dict[str, Any]:
    """A cluster of the lab in drctl.yaml; the password is read from the lab's own file."""
    properties = cluster.lab_cluster.public_properties(user)
    bootstrap = properties.pop("bootstrap.servers")
    properties["sasl.password"] = f"${{file:{cluster.lab_cluster.password_file(user)}}}"
    return {"bootstrap": bootstrap, "properties": properties}


def link_section(topics: Sequence[str], **settings: object) -> dict[str, Any]:
    """A link from primary to secondary."""
    return {"from": "primary", "to": "secondary", "topics": list(topics), **settings}


@pytest.fixture(scope="session")
def clock() -> Clock:
    """Three hours ago."""
    return Clock(int(time.time()) * 1000 - 3 * 3_600_000)


@pytest.fixture(scope="session")
def prefix() -> str:
    """What the names of this run's topics begin with."""
    return f"t{uuid4().hex[:6]}."


Sections = Mapping[str, Any]
NewDrctl = Callable[..., Drctl]


@pytest.fixture(scope="session")
def new_drctl(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    tmp_path_factory: pytest.TempPathFactory,
) -> NewDrctl:
    """A drctl with a drctl.yaml for the lab with these links."""

    def make(links: Sections, spark: Sections | None = None, **clusters: Any) -> Drctl:
        folder: Path = tmp_path_factory.mktemp("drctl")
        document = {
            "clusters": {
                "primary": cluster_section(primary),
                "secondary": cluster_section(secondary),
                **clusters,
            },
            "links": dict(links),
            "spark": {"master": "local[2]", **(spark or {})},
        }
        config = folder / "drctl.yaml"
        config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return Drctl(folder, config)

    return make
