"""What clients move between: two clusters, a DNS name, a proxy, and their namespace."""

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

# Host numbers in the namespace's network; that of the resolver is `Namespace.resolver`.
_PRIMARY, _SECONDARY, _PROXY, _HOSTS = 1, 2, 4, 4


@dataclass(frozen=True)
class Stage:
    """Started once; each test uses a topic and clients of its own."""

    folder: Path
    namespace: Namespace
    primary: Cluster
    secondary: Cluster
    name: Name
    proxy: Proxy
    classes: Path

    @property
    def through_proxy(self) -> str:
        """The bootstrap servers of clients that use the proxy."""
        return f"{self.namespace.address(_PROXY)}:{PORT}"

    def topic(self) -> str:
        """Create a topic on both clusters; the secondary has replicated records already."""
        name = f"orders-{uuid4().hex[:6]}"
        for cluster in (self.primary, self.secondary):
            cluster.create(name)
        self.secondary.fill(name)
        return name

    @contextmanager
    def applications(self, topic: str, bootstrap: str = BOOTSTRAP) -> Iterator[Applications]:
        """Return an empty set of applications; they end with it."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        opened = Applications(self.namespace, folder, topic, bootstrap)
        try:
            yield opened
        finally:
            opened.end()

    def prepare(self, topic: str, clients: Sequence[Client]) -> None:
        """Prepare offsets and groups on the secondary, as a failover does before clients move."""
        consumers = [client for client in clients if not client.produces]
        classic = [group_of(client, topic) for client in consumers if not client.modern]
        modern = [group_of(client, topic) for client in consumers if client.modern]
        self.secondary.expect(topic, classic, modern)

    @contextmanager
    def cut_off(self, cluster: Cluster) -> Iterator[float]:
        """Drop all packets from the namespace to a cluster silently; return the time."""
        self.namespace.lose(cluster.address)
        try:
            yield time.monotonic()
        finally:
            self.namespace.find(cluster.address)


@contextmanager
def stage(root: Path) -> Iterator[Stage]:
    """Start everything; stop all that was started, also if the rest could not be."""
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
