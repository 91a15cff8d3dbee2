"""A real DNS server and a real proxy."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endpoints import bind_server
from tests.endpoints.bind_server import Named
from tests.endpoints.proxy import Brokers, Proxy, brokers, proxy


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    """The primary server of a zone."""
    opened = bind_server.primary(tmp_path_factory.mktemp("named"))
    yield opened
    opened.program.end()


@pytest.fixture(scope="session")
def resolver(server: Named, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    """A caching resolver for its zone."""
    opened = bind_server.resolver(tmp_path_factory.mktemp("resolver"), server)
    yield opened
    opened.program.end()


@pytest.fixture
def cluster_ends() -> Iterator[Brokers]:
    """Servers at the addresses of p1, p2, s1, s2 that send their name."""
    with brokers("p1", "p2", "s1", "s2") as opened:
        yield opened


@pytest.fixture
def haproxy(cluster_ends: Brokers, tmp_path: Path) -> Iterator[Proxy]:
    """A proxy in front of them."""
    opened = proxy(tmp_path, cluster_ends)
    yield opened
    opened.program.end()
    shutil.rmtree(opened.folder)
