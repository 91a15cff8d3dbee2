"""Who answers in this run, and who does not: a silent party is asked once, and waited for once.

A party is a cluster or the workers of a Connect cluster. Whoever asks it first sees whether it is
there, and everybody else waits for that; after that a silent one says so at once to every question.
Whether it is back is looked for behind the back of those who ask. Outside a run nothing is kept.
"""

import errno
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from copy import copy
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from drctl.model.errors import DrctlError, Unreachable

PATIENCE_S = 7.0
"""How long a party may take to show that it is there: less than for an answer that is work."""

AGAIN_S = 2.0
"""From a look whether a silent party is back to the next one."""

_CLUSTER = "cluster "


class Party:
    """What a run knows of one party.

    Args:
        name: for a person.
    """

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        self.name = name
        self._clock = clock
        self._lock = Lock()
        self._asking: Event | None = None
        self._answered = False
        self._silence: Unreachable | None = None
        self._asked_at = 0.0

    @property
    def silence(self) -> Unreachable | None:
        """Why it did not answer when it was asked last; None where it did, or nobody asked."""
        return self._silence

    def expect(self, look: Callable[[], object], again: Callable[[], object]) -> None:
        """See that it is worth asking something.

        Args:
            look: asks it for next to nothing.
            again: the same from a thread of its own, beside whoever else asks.

        Raises:
            Unreachable: it does not answer, or does not let us in.
            ConfigError: it cannot be asked.
        """
        while True:
            with self._lock:
                if self._silence is not None:
                    self._look_again(again)
                    raise copy(self._silence)
                if self._answered:
                    return
                asking, mine = self._asking, self._asking is None
                if asking is None:
                    asking = self._asking = Event()
            if mine:
                self._look(look, asking)
                return
            asking.wait()

    def silent(self, why: Unreachable) -> None:
        """Note that it gave no answer to something."""
        with self._lock:
            self._silence, self._asked_at = why, self._clock()

    def forget(self, older_s: float = 0.0) -> None:
        """Have it asked again, unless it was asked within this time."""
        with self._lock:
            if self._clock() - self._asked_at >= older_s:
                self._silence, self._answered = None, False

    def _look(self, look: Callable[[], object], asking: Event) -> None:
        silence: Unreachable | None = None
        answered = False
        try:
            look()
            answered = True
        except Unreachable as why:
            silence = why
            raise
        finally:
            with self._lock:
                self._silence, self._answered = silence, answered
                self._asked_at, self._asking = self._clock(), None
            asking.set()

    def _look_again(self, again: Callable[[], object]) -> None:
        if self._asking is None and self._clock() - self._asked_at >= AGAIN_S:
            self._asking = Event()
            Thread(target=self._behind, args=(again, self._asking), daemon=True).start()

    def _behind(self, again: Callable[[], object], asking: Event) -> None:
        try:
            self._look(again, asking)
        except DrctlError:
            # What it says is kept, and told to whoever asks next.
            return


class Presence:
    """All parties of a run."""

    def __init__(self) -> None:
        self._parties: dict[Hashable, Party] = {}
        self._lock = Lock()

    def party(self, key: Hashable, name: str) -> Party:
        """The party of this key."""
        with self._lock:
            return self._parties.setdefault(key, Party(name))

    def silent(self) -> dict[str, str]:
        """The clusters that did not answer the last request, each with the reason."""
        reasons: dict[str, str] = {}
        answering = set()
        for each in self.parties():
            name = each.name.removeprefix(_CLUSTER)
            if type(each.silence) is Unreachable:
                reasons[name] = each.silence.message
            else:
                answering.add(name)
        clusters = (each.name for each in self.parties() if each.name.startswith(_CLUSTER))
        names = dict.fromkeys(name.removeprefix(_CLUSTER) for name in clusters)
        return {name: reasons[name] for name in names if name not in answering}

    def parties(self) -> tuple[Party, ...]:
        """All of them."""
        with self._lock:
            return tuple(self._parties.values())

    def named(self, name: str) -> tuple[Party, ...]:
        """All parties of this name."""
        return tuple(each for each in self.parties() if each.name == name)


class _Run:
    presence: Presence | None = None


def begin() -> None:
    """Keep, from now on, who does not answer; what is kept already stays."""
    if _Run.presence is None:
        _Run.presence = Presence()


def end() -> None:
    """Keep nothing any more."""
    _Run.presence = None


def party(key: Hashable, name: str) -> Party | None:
    """What this run knows of a party; None outside a run."""
    return _Run.presence.party(key, name) if _Run.presence is not None else None


def anew(name: str, older_s: float = 0.0) -> None:
    """Have a party asked again, unless that was done within this time."""
    for each in _Run.presence.named(name) if _Run.presence is not None else ():
        each.forget(older_s)


def recheck_all() -> None:
    """Have every party asked anew: what kept some of them silent is over."""
    for each in _Run.presence.parties() if _Run.presence is not None else ():
        each.forget()


def cluster(name: str) -> str:
    """What the cluster of this name in drctl.yaml is called here."""
    return f"{_CLUSTER}{name}"


def silent_clusters() -> dict[str, str]:
    """The clusters that did not answer the last request of this run, each with the reason."""
    return _Run.presence.silent() if _Run.presence is not None else {}


def connected(place: tuple[str, int], timeout_s: float) -> socket.socket:
    """A connection to a host and port.

    Raises:
        OSError: there is none; also where no host can be called so.
    """
    try:
        return socket.create_connection(place, timeout_s)
    except (UnicodeError, OverflowError):
        # The resolver encodes names first, and has an error of its own for that.
        raise OSError(errno.EINVAL, f"unknown host {place[0]!r}") from None


class Closing(ABC):
    """A context manager that ends with `close`."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held; may be called again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
