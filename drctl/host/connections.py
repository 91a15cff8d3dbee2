"""Which clusters and Connect workers respond during a command.

A peer is a cluster or the workers of a Connect cluster. The first request probes it while all other
threads wait for the result. Afterwards an unreachable peer fails every request at once, and a
thread in the background probes it again. Nothing is remembered outside a command.
"""

import errno
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from contextlib import suppress
from copy import copy
from threading import Condition, Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar
from weakref import WeakValueDictionary

from drctl.model.errors import DrctlError, Unreachable

PROBE_TIMEOUT_S = 7.0
"""How long a peer may take to answer a probe; other requests may take longer."""

PROBE_INTERVAL_S = 2.0
"""The shortest time between two probes of an unreachable peer."""

_CLUSTER = "cluster "


class Peer:
    """Whether one peer is reachable.

    Args:
        name: its name in messages.
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        self.name = name
        self._clock = clock
        self._lock = Lock()
        self._probing: Event | None = None
        self._answered = False
        self._error: Unreachable | None = None
        self._probed_at = 0.0

    @property
    def error(self) -> Unreachable | None:
        """Why the last probe or request failed; None if it succeeded, or there was none."""
        return self._error

    def require(self, probe: Callable[[], object], reprobe: Callable[[], object]) -> None:
        """Check that the peer is reachable before a request is sent.

        Args:
            probe: sends a cheap request.
            reprobe: also sends a cheap request, but is called from a thread in the background.

        Raises:
            Unreachable: it does not answer, or authentication fails.
            ConfigError: the client cannot be created.
        """
        while True:
            with self._lock:
                if self._error is not None:
                    self._start_reprobe(reprobe)
                    raise copy(self._error)
                if self._answered:
                    return
                probing, mine = self._probing, self._probing is None
                if probing is None:
                    probing = self._probing = Event()
            if mine:
                self._probe(probe, probing)
                return
            probing.wait()

    def failed(self, error: Unreachable) -> None:
        """Record that a request got no answer."""
        with self._lock:
            self._error, self._probed_at = error, self._clock()

    def forget(self, older_s: float = 0.0) -> None:
        """Have the peer probed again if its last probe is at least `older_s` old."""
        with self._lock:
            if self._clock() - self._probed_at >= older_s:
                self._error, self._answered = None, False

    def _probe(self, probe: Callable[[], object], probing: Event) -> None:
        error: Unreachable | None = None
        answered = False
        try:
            probe()
            answered = True
        except Unreachable as unreachable:
            error = unreachable
            raise
        finally:
            with self._lock:
                self._error, self._answered = error, answered
                self._probed_at, self._probing = self._clock(), None
            probing.set()

    def _start_reprobe(self, reprobe: Callable[[], object]) -> None:
        if self._probing is None and self._clock() - self._probed_at >= PROBE_INTERVAL_S:
            self._probing = probing = Event()

            def run() -> None:
                # The next caller of `require` gets the error.
                with suppress(DrctlError):
                    self._probe(reprobe, probing)

            Thread(target=run, daemon=True).start()


class Closing(ABC):
    """A context manager that ends with `close`."""

    @abstractmethod
    def close(self) -> None:
        """Release resources; may be called more than once."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _Command:
    peers: dict[Hashable, Peer] | None = None
    shared: ClassVar[WeakValueDictionary[Hashable, Closing]] = WeakValueDictionary()


_lock = Lock()
C = TypeVar("C", bound=Closing)


def begin() -> None:
    """Start to remember which peers respond; calling it again has no effect."""
    if _Command.peers is None:
        _Command.peers, _Command.shared = {}, WeakValueDictionary()


def end() -> None:
    """Forget all peers, and close every shared connection that a user left open."""
    with _lock:
        left = list(_Command.shared.values()) if _Command.peers is not None else []
        _Command.peers, _Command.shared = None, WeakValueDictionary()
    for each in left:
        each.close()


def shared(key: Hashable, opened: Callable[[], C]) -> C:
    """The connection of this key, shared by all of its users until the command ends."""
    with _lock:
        found: Any = _Command.shared.get(key)
        if found is None:
            found = _Command.shared[key] = opened()
    return found  # type: ignore[no-any-return]


def peer(key: Hashable, name: str) -> Peer | None:
    """The peer of this key; None outside a command."""
    with _lock:
        return None if _Command.peers is None else _Command.peers.setdefault(key, Peer(name))


def recheck(name: str, older_s: float = 0.0) -> None:
    """Have the peers of this name probed again if their last probe is at least `older_s` old."""
    for each in _all_peers():
        if each.name == name:
            each.forget(older_s)


def recheck_all() -> None:
    """Have every peer probed again, for example after a drill has reverted a fault."""
    for each in _all_peers():
        each.forget()


def cluster(name: str) -> str:
    """The peer name of a cluster in drctl.yaml."""
    return f"{_CLUSTER}{name}"


def unreachable_clusters() -> dict[str, str]:
    """The clusters that did not answer their last request, each with the reason."""
    clusters = [each for each in _all_peers() if each.name.startswith(_CLUSTER)]
    answering = {each.name for each in clusters if type(each.error) is not Unreachable}
    return {
        each.name.removeprefix(_CLUSTER): each.error.message
        for each in clusters
        if each.error is not None and each.name not in answering
    }


def _all_peers() -> tuple[Peer, ...]:
    with _lock:
        return tuple((_Command.peers or {}).values())


FRESH_S = 3.0
"""The maximum age of a probe that decisions use."""

_LOOP_PAUSE_S = 0.5


class ProbeLoop:
    """Probes one peer repeatedly in a thread, until `close` is called.

    Args:
        probe: sends a request with a deadline, over a connection of its own.
    """

    def __init__(self, probe: Callable[[], None], clock: Callable[[], float] = monotonic) -> None:
        self._probe = probe
        self._clock = clock
        self._changed = Condition()
        self._result: tuple[float, DrctlError | None] | None = None
        self._closed = False
        # A daemon: a probe that hangs must not keep the process alive.
        Thread(target=self._run, name="probe-loop", daemon=True).start()

    def newest(self, fresh_s: float = FRESH_S) -> None:
        """Wait for a probe result at most `fresh_s` old; raise the error if that probe failed.

        Raises:
            AuthenticationFailed: the peer rejects drctl's credentials.
            Unreachable: it did not answer.
            ConfigError: the client cannot be created.
        """
        since = self._clock() - fresh_s
        with self._changed:
            while (result := self._result) is None or result[0] < since:
                self._changed.wait(0.2)
        if result[1] is not None:
            raise result[1]

    def close(self) -> None:
        """Stop probing."""
        self._closed = True

    def _run(self) -> None:
        while not self._closed:
            error: DrctlError | None = None
            try:
                self._probe()
            except DrctlError as failure:
                error = failure
            with self._changed:
                self._result = self._clock(), error
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._closed, _LOOP_PAUSE_S)


def connect(address: tuple[str, int], timeout_s: float) -> socket.socket:
    """Connect to a host and port.

    Raises:
        OSError: the connection failed, or the host name is invalid.
    """
    try:
        return socket.create_connection(address, timeout_s)
    except (UnicodeError, OverflowError):
        # Encoding an invalid name fails before it is resolved.
        raise OSError(errno.EINVAL, f"unknown host {address[0]!r}") from None
