"""A real producer: writes flights where the signpost says, and keeps what was acknowledged."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from confluent_kafka import KafkaException

from drctl.lab.background import AckLog
from drctl.lab.flights import Row, flights
from drctl.lab.lab import Lab
from drctl.lab.loading import Ack, Failure, load
from drctl.lab.loads import Loads, ensure_topic
from drctl.lab.scenarios.signpost import USER, Signpost
from drctl.model.errors import Stopped

_END_S = 60
_LOOK_S = 0.1


class Writer:
    """An application that writes; each of its records carries the time at which it was made."""

    def __init__(self, lab: Lab, signpost: Signpost, topic: str) -> None:
        self._lab = lab
        self._signpost = signpost
        self._topic = topic
        self._next = 0
        self._acknowledged: dict[str, int] = {}
        self._failed: dict[str, int] = {}
        self.failure = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._rate = 0

    @property
    def next_row(self) -> int:
        """The first row that was not tried yet."""
        return self._next

    def acknowledged(self, cluster: str) -> int:
        """How many records the cluster said it has; may be asked while it writes."""
        return self._acknowledged.get(cluster, 0)

    def failed(self, cluster: str) -> int:
        """Of how many nobody knows."""
        return self._failed.get(cluster, 0)

    def log(self, cluster: str) -> Path:
        """The folder of the log of what was acknowledged there."""
        return Loads(self._lab).folder(cluster)

    def write(
        self,
        count: int | None = None,
        rate: float = 0,
        until: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write, until so many are through, or it is so.

        Raises:
            Stopped: the producer could not go on.
            Unreachable: the cluster does not answer.
        """
        cluster = self._signpost.cluster()
        ensure_topic(cluster, self._topic)
        rows = _made_now(flights(self._next, count))
        try:
            with AckLog.opened(self.log(cluster.name)) as log:
                self._load(cluster.name, rows, log, rate, until)
        except KafkaException as error:
            raise Stopped(f"the application ended: {error.args[0].str()}") from error

    def start(self, rate: int) -> None:
        """Go on writing in a thread, until told to stop; where it is refused, it waits."""
        self._rate = rate
        self._thread = threading.Thread(target=self._go_on, name="writer", daemon=True)
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Do not wait for it: what it has under way to a dead cluster takes its time."""
        self._stopping.set()

    def stop(self) -> None:
        """See it ended.

        Raises:
            Stopped: it does not end, or had failed.
        """
        self._stopping.set()
        thread = self._thread
        if thread is not None:
            thread.join(_END_S)
        if thread is not None and thread.is_alive():
            raise Stopped(f"the application did not end in {_END_S} s")
        if self.failure:
            raise Stopped(self.failure)
        self._stopping.clear()

    def _go_on(self) -> None:
        try:
            while not self._stopping.is_set():
                self._write_where_it_is_sent()
        except Stopped as error:
            self.failure = error.message

    def _write_where_it_is_sent(self) -> None:
        """Write to one cluster until it refuses; then wait until the signpost points elsewhere."""
        name = self._signpost.cluster().name
        failed = self.failed(name)

        def sent_elsewhere() -> bool:
            return self._signpost.cluster().name != name

        def refused() -> bool:
            return self.failed(name) > failed

        self.write(rate=self._rate, until=lambda: refused() or sent_elsewhere())
        while refused() and not (sent_elsewhere() or self._stopping.is_set()):
            self._stopping.wait(_LOOK_S)

    def _load(
        self,
        cluster: str,
        rows: Iterator[Row],
        log: AckLog,
        rate: float,
        until: Callable[[], bool],
    ) -> None:
        def acknowledged(ack: Ack) -> None:
            log.acknowledged(ack)
            self._acknowledged[cluster] = self.acknowledged(cluster) + 1

        def failed(failure: Failure) -> None:
            log.failed(failure)
            self._failed[cluster] = self.failed(cluster) + 1

        properties = self._lab.cluster(cluster).client_properties(USER)
        stopping = self._stopping
        count = load(
            properties,
            self._topic,
            rows,
            acknowledged,
            failed,
            rate,
            lambda: stopping.is_set() or until(),
        )
        self._next = max(self._next, count.next_row)


def _made_now(rows: Iterator[Row]) -> Iterator[Row]:
    """With the time at which they are sent: the age of what is lost is then a real one."""
    for row in rows:
        yield replace(row, timestamp_ms=int(time.time() * 1000))
