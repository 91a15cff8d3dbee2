"""Applications in the namespace: their clients' settings, and their events."""

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import find_java
from drctl.lab.waiting import Patience
from tests.clients.brokers import COPIED, QUIET
from tests.clients.namespace import Namespace

_HERE = Path(__file__).parent
_QUICK_JVM = ("-Dsun.net.inetaddr.ttl=1",)
_JVM = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class Client(NamedTuple):
    """A client of an application.

    Attributes:
        name: ends with its role after the last dot.
        given: its settings besides bootstrap servers and group.
    """

    name: str
    given: Mapping[str, str]

    @property
    def produces(self) -> bool:
        """Whether it is a producer; otherwise it is a consumer."""
        return self.name.endswith(".producer")

    @property
    def modern(self) -> bool:
        """Whether its group uses the KIP-848 protocol."""
        return self.given.get("group.protocol") == "consumer"


class Event(NamedTuple):
    """Something that happened to a client.

    Attributes:
        at_s: seconds of this host's monotonic clock.
        offset: -1 if it does not concern a record.
    """

    at_s: float
    client: str
    what: str
    offset: int
    text: str

    @property
    def there(self) -> bool:
        """Whether it concerns a new record of the target; the source's offsets are lower."""
        return self.what in ("acknowledged", "read") and self.offset >= COPIED


@dataclass
class Application:
    """A process with clients; `events` has what it printed so far.

    Attributes:
        seen: each client with each kind of event that it had.
    """

    clients: tuple[Client, ...]
    process: "subprocess.Popen[bytes]"
    output: Path
    errors: Path
    events: list[Event] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)
    _read: int = 0

    def look(self) -> None:
        """Read what it printed since the last call."""
        with self.output.open("rb") as lines:
            lines.seek(self._read)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                event = _event(line.decode())
                self.events.append(event)
                self.seen |= {(event.client, what) for what in _kinds(event)}

    def end(self) -> None:
        """Kill it, without a clean shutdown."""
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdin is not None
        self.process.stdin.close()


def _event(line: str) -> Event:
    nanoseconds, client, what, text = line.rstrip("\n").split("\t")
    at_s = int(nanoseconds) / 1e9
    if what not in ("acknowledged", "read"):
        return Event(at_s, client, what, -1, text)
    offset, _, value = text.partition(" ")
    return Event(at_s, client, what, int(offset), value)


class Applications:
    """All running applications.

    Args:
        namespace: where they run; None for this host's own network.
    """

    def __init__(
        self, namespace: Namespace | None, folder: Path, topic: str, bootstrap: str
    ) -> None:
        self._namespace, self._folder = namespace, folder
        self._topic, self._bootstrap = topic, bootstrap
        self._running: list[Application] = []

    @property
    def clients(self) -> tuple[Client, ...]:
        """The clients of all applications."""
        return tuple(client for each in self._running for client in each.clients)

    def events(self) -> list[Event]:
        """All events so far."""
        self._look()
        return [event for each in self._running for event in each.events]

    def without(self, clients: Collection[Client], what: str) -> set[str]:
        """Return the clients that have had no such event."""
        self._look()
        return {client.name for client in clients if not self._saw(client, what)}

    def librdkafka(self, clients: Sequence[Client]) -> None:
        """Start an application with librdkafka."""
        program = [sys.executable, str(_HERE / "librdkafka_program.py")]
        self._start("librdkafka", program, clients)

    def java(self, name: str, clients: Sequence[Client], classes: Path, *, quick: bool) -> None:
        """Start an application with Java clients.

        Args:
            classes: folder of the compiled program.
            quick: whether its JVM caches DNS answers for 1 second instead of 30.
        """
        options = (*_JVM, *(_QUICK_JVM if quick else ()))
        program = [str(find_java()), *options, "-cp", f"{classes}:{_jars()}", "JavaProgram"]
        self._start(name, program, clients)

    def end(self) -> None:
        """End all applications."""
        for each in self._running:
            each.end()

    def wait(self, seconds: float, clients: Collection[Client], what: str) -> None:
        """Wait until each of these clients has had such an event."""
        in_time = Patience.of(seconds).wait_until(lambda: not self.without(clients, what))
        missing = self.without(clients, what)
        assert in_time, f"{what}: not {sorted(missing)}; {self.last(missing)}"

    def last(self, names: Collection[str]) -> dict[str, list[Event]]:
        """Return the last event of each of these clients."""
        events = self.events()
        return {name: [e for e in events if e.client == name][-3:] for name in names}

    def _look(self) -> None:
        for each in self._running:
            assert each.process.poll() is None, each.errors.read_text(errors="replace")[-2000:]
            each.look()

    def _saw(self, client: Client, what: str) -> bool:
        return any((client.name, what) in each.seen for each in self._running)

    def _start(self, name: str, program: Sequence[str], clients: Sequence[Client]) -> None:
        folder = self._folder / name
        folder.mkdir()
        files = [self._written(folder, client) for client in clients]
        argv = [*program, self._topic, *files]
        if self._namespace is not None:
            argv = self._namespace.inside(argv)
        output, errors = folder / "output", folder / "errors"
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            # Its standard input is closed when this process ends, which ends the application.
            process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr)
        self._running.append(Application(tuple(clients), process, output, errors))

    def _written(self, folder: Path, client: Client) -> str:
        settings = {"bootstrap.servers": self._bootstrap, **client.given}
        if not client.produces:
            settings["group.id"] = group_of(client, self._topic)
        path = folder / f"{client.name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return str(path)


def group_of(client: Client, topic: str) -> str:
    """Return the group of a consumer: one for each client and topic."""
    return f"{client.name}-{topic}"


def _kinds(event: Event) -> tuple[str, ...]:
    return (event.what, "there") if event.there else (event.what,)


def compiled(folder: Path) -> Path:
    """Compile the Java application and its interceptor."""
    sources = [str(_HERE / f"{name}.java") for name in ("JavaProgram", "ConsumerTimestamps")]
    command = [str(find_java()), "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    jars = os.pathsep.join(map(str, resolve("kafka", progress=QUIET.info)))
    command += ["-cp", jars, "-d", str(folder), *sources]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def _jars() -> str:
    return os.fspath(resolve("kafka", progress=QUIET.info)[0].parent / "*")
