"""Replicates a topic like a user-supplied tool: with plain clients, until a file stops it."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from tests.lab.cluster_under_test import QUIET

_BATCH = 500
_PAUSE_S = 0.05
_ENDING_S = 30


class Copied(Protocol):
    """What a copier needs of a cluster."""

    def properties(self) -> dict[str, str]: ...

    def producer(self) -> Producer: ...

    def end_offsets(self, topic: str) -> dict[int, int]: ...


@dataclass
class Copier:
    """A thread that copies every record to the same partition.

    Attributes:
        folder: with control files: it stops while `halt` exists, and creates `halted` once
            everything that it has read is written.
        keeps_offsets: whether each copy must have the offset of its original.
        begin: start offsets by partition; by default the log start.
        leaves_out: records with this header are not copied; empty for none.
    """

    source: Copied
    target: Copied
    topic: str
    folder: Path
    keeps_offsets: bool
    begin: Mapping[int, int] = field(default_factory=dict)
    leaves_out: str = ""
    wrong: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def commands(self) -> Mapping[str, list[str]]:
        """Return the commands in drctl.yaml that stop, start and observe it."""
        halt, halted = str(self.folder / "halt"), str(self.folder / "halted")
        return {
            "stop": ["/usr/bin/touch", halt],
            "start": ["/bin/rm", "-f", halt],
            "stopped": ["/usr/bin/test", "-e", halted],
        }

    def halt(self) -> None:
        """Do by hand what the stop command does."""
        (self.folder / "halt").touch()

    @property
    def halted(self) -> bool:
        """Whether it reports that it is stopped."""
        return (self.folder / "halted").exists()

    @contextmanager
    def at_work(self) -> Iterator["Copier"]:
        """Copy during the block, unless it is stopped."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join(_ENDING_S)
        assert not thread.is_alive(), "the copier hangs"
        assert self.wrong == []

    def _work(self) -> None:
        numbers = self.source.end_offsets(self.topic)
        settings = {"group.id": f"copier-{self.topic}", "enable.auto.commit": False}
        consumer = Consumer({**self.source.properties(), **settings}, logger=QUIET)
        consumer.assign([TopicPartition(self.topic, n, self.begin.get(n, 0)) for n in numbers])
        try:
            while not self._over.is_set():
                if (self.folder / "halt").exists():
                    (self.folder / "halted").touch()
                    self._over.wait(_PAUSE_S)
                    continue
                (self.folder / "halted").unlink(missing_ok=True)
                self._copy(consumer.consume(_BATCH, _PAUSE_S))
        finally:
            consumer.close()

    def _copy(self, messages: list[Any]) -> None:
        records = [each for each in messages if each.error() is None and self._wanted(each)]
        if not records:
            # A dead source returns an error from every poll at once.
            self._over.wait(_PAUSE_S)
            return
        producer = self.target.producer()
        for record in records:
            producer.produce(
                self.topic,
                partition=record.partition(),
                key=record.key(),
                value=record.value(),
                headers=record.headers() or [],
                timestamp=record.timestamp()[1],
                on_delivery=self._delivered(record.offset()),
            )
        assert producer.flush(_ENDING_S) == 0

    def _wanted(self, message: Any) -> bool:
        return self.leaves_out not in dict(message.headers() or [])

    def _delivered(self, wanted: int) -> Any:
        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.wrong.append(str(error))
            elif self.keeps_offsets and message.offset() != wanted:
                self.wrong.append(f"offset {message.offset()}, not {wanted}")

        return delivered
