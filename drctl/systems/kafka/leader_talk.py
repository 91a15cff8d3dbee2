"""A connection to one leader that look-ups go over, one after the other, while others wait."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from confluent_kafka import KafkaError

from drctl.model.errors import DrctlError, Unreachable
from drctl.systems.closing import Closing
from drctl.systems.kafka.broker_security import BrokerSecurity
from drctl.systems.kafka.broker_socket import Address, BrokerSocket
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault
from drctl.wire.offset_look_ups import LOOK_UP, LookedUp, look_up, read_looked_up

Whens = Mapping[str, Sequence[tuple[int, int]]]
"""By topic: partitions, and a time or mark each."""


class _Asked(NamedTuple):
    """What waits for its turn; the answer is told to whoever holds the future."""

    whens: Whens
    committed: bool
    deadline: Deadline
    answer: "Future[list[LookedUp] | Fault]"


class LeaderTalk(Closing):
    """Connects when first asked, and again after a failure.

    Attributes:
        unfit: why this broker cannot be asked in this way; empty as far as known.
    """

    def __init__(self, address: Address, security: BrokerSecurity) -> None:
        self.address = address
        self.unfit = ""
        self._security = security
        self._socket: BrokerSocket | None = None
        self._asked: SimpleQueue[_Asked | None] = SimpleQueue()
        Thread(target=self._work, name="drctl-look-ups", daemon=True).start()

    def ask(
        self, whens: Whens, deadline: Deadline, *, committed: bool
    ) -> "Future[list[LookedUp] | Fault]":
        """The answers, or the fault of all of them, once it is their turn."""
        asked = _Asked(whens, committed, deadline, Future())
        self._asked.put(asked)
        return asked.answer

    def close(self) -> None:
        """Hang up after what has been asked; may be called again."""
        self._asked.put(None)

    def _work(self) -> None:
        while asked := self._asked.get():
            try:
                asked.answer.set_result(self._answer(asked))
            except BaseException as bug:
                asked.answer.set_exception(bug)
                raise
        self._hang_up()

    def _answer(self, asked: _Asked) -> list[LookedUp] | Fault:
        if asked.deadline.expired:
            return Fault(KafkaError._TIMED_OUT, f"{self.address} was asked too late")
        try:
            socket = self._connected(asked.deadline)
            body = look_up(asked.whens, committed=asked.committed)
            return socket.exchange(LOOK_UP, body, read_looked_up)
        except Unreachable as error:
            self._hang_up()
            late = asked.deadline.expired
            return Fault(KafkaError._TIMED_OUT if late else KafkaError._TRANSPORT, error.message)
        except DrctlError as error:
            self._hang_up()
            self.unfit = error.message
            return Fault(KafkaError._TRANSPORT, error.message)

    def _connected(self, deadline: Deadline) -> BrokerSocket:
        if self._socket is None:
            opened = BrokerSocket(self.address, self._security, deadline)
            self._socket = opened.__enter__()
        self._socket.until(deadline)
        return self._socket

    def _hang_up(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None
