"""Everything that clients move on: two clusters, a name, a proxy, and the namespace they run in."""

import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.clients import endpoints, namespace
from tests.clients.applications import Applications, Client, compiled, group_of
from tests.clients.brokers import PORT, Cluster
from tests.clients.endpoints import BOOTSTRAP, Name, Proxy
from tests.clients.namespace import Namespace

# Hosts of the namespace's network: the resolver's is told by the namespace.
_PRIMARY, _SECONDARY, _PROXY, _HOSTS = 1, 2, 4, 4


@dataclass(frozen=True)
class Stage:
    """Set up once; each test takes a topic and clients of its own."""

    folder: Path
    namespace: Namespace
    primary: Cluster
    secondary: Cluster
    name: Name
    proxy: Proxy
    classes: Path

    @property
    def through_proxy(self) -> str:
        """What a client's bootstrap is that goes through the proxy."""
        return f"{self.namespace.address(_PROXY)}:{PORT}"

    def topic(self) -> str:
        """On both clusters; the secondary holds copies already."""
        name = f"orders-{uuid4().hex[:6]}"
        for cluster in (self.primary, self.secondary):
            cluster.create(name)
        self.secondary.fill(name)
        return name

    @contextmanager
    def applications(self, topic: str, bootstrap: str = BOOTSTRAP) -> Iterator[Applications]:
        """None yet; those that are started end with this."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        opened = Applications(self.namespace, folder, topic, bootstrap)
        try:
            yield opened
        finally:
            opened.end()

    def prepare(self, topic: str, clients: Sequence[Client]) -> None:
        """What a failover does before it moves clients: positions and groups on the secondary."""
        consumers = [client for client in clients if not client.produces]
        classic = [group_of(client, topic) for client in consumers if not client.modern]
        modern = [group_of(client, topic) for client in consumers if client.modern]
        self.secondary.expect(topic, classic, modern)

    @contextmanager
    def cut_off(self, cluster: Cluster) -> Iterator[float]:
        """Nothing that the namespace sends there arrives, and nothing says so; since when."""
        self.namespace.lose(cluster.address)
        try:
            yield time.monotonic()
        finally:
            self.namespace.find(cluster.address)


@contextmanager
def stage(root: Path) -> Iterator[Stage]:
    """Set it up; whatever was set up is taken away, also where the rest cannot be."""
    with ExitStack() as stack:
        made = namespace.create(_HOSTS)
        stack.callback(made.remove)
        addresses = {"primary": made.address(_PRIMARY), "secondary": made.address(_SECONDARY)}
        at = made.address(_PROXY)
        clusters = {
            name: Cluster(name, root / name, address, at) for name, address in addresses.items()
        }
        for cluster in clusters.values():
            stack.callback(cluster.kill)
            cluster.start()
        name = endpoints.name_server(_folder(root, "dns"), made.resolver, addresses)
        stack.callback(name.program.end)
        short = Path(tempfile.mkdtemp(prefix="drctl-haproxy-"))
        stack.callback(shutil.rmtree, short, ignore_errors=True)
        proxy = endpoints.proxy(root / "haproxy.log", short, at, addresses)
        stack.callback(proxy.program.end)
        classes = compiled(_folder(root, "classes"))
        for cluster in clusters.values():
            cluster.wait()
        yield Stage(root, made, **clusters, name=name, proxy=proxy, classes=classes)


def _folder(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    return folder
