"""A separate journal topic for a test, its links, and processes that hold them."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Thread
from typing import Any
from uuid import uuid4

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from drctl.formats.journal_records import JournalRecord, decode
from drctl.kafka.connection import Connection
from drctl.kafka.journal_reader import JournalTopicReader
from drctl.kafka.journal_topic import JournalTopic
from drctl.kafka.reader import KafkaClusterReader
from drctl.model.journal import Entry, Holder
from drctl.model.topology import TopicPartition as Place
from tests.kafka.conftest import Bench
from tests.kafka.tls_broker import wait_until

LINK = "main"
BEGAN: Entry = {"entry": "began", "plan": "ä"}
ENDED: Entry = {"entry": "ended", "status": "done"}
SINCE = datetime(2026, 3, 5, 14, 20, 11, 512000, tzinfo=UTC)
BEAT_S = 0.3
"""Heartbeat interval for holders that a test kills: less than a second of silence counts as
death."""
LONG_S = 60.0
"""Heartbeat interval with which waiting for a holder would exceed the test's timeout."""


def holder(run: str, who: str = "anna", pid: int = 41) -> Holder:
    return Holder(run, who, f"laptop-of-{who}", pid, SINCE)


def named(*words: str) -> list[Entry]:
    return [{"entry": word} for word in words]


@dataclass
class JournalPlace:
    """Journals of links in one topic, and its records."""

    properties: Mapping[str, str]
    bench: Bench
    topic: str = field(default_factory=lambda: f"__journal-{uuid4().hex[:8]}")
    # Transactional ids belong to the cluster, not to the topic.
    link: str = field(default_factory=lambda: f"{LINK}-{uuid4().hex[:8]}")

    def journal(
        self, link: str = "", beat_s: float = BEAT_S, timeout_s: float = 10, **settings: Any
    ) -> JournalTopic:
        link, given = link or self.link, {"topic": self.topic, "beat_s": beat_s, **settings}
        return JournalTopic(Connection("secondary", self.properties, timeout_s), link, **given)

    def reader(self, link: str = "", **settings: Any) -> JournalTopicReader:
        link, given = link or self.link, {"topic": self.topic, "beat_s": BEAT_S, **settings}
        return JournalTopicReader(Connection("secondary", self.properties), link, **given)

    def words(self, run: str) -> list[str]:
        """The kinds of a run's entries, as a new reader sees them."""
        return [entry["entry"] for entry in self.reader().entries(run)]

    def run(self, run: str, *words: str, who: str = "anna") -> None:
        """A run from its start to the release of the link."""
        with self.journal().acquire(holder(run, who)) as held:
            held.append(named(*words))

    def end(self, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> int:
        """The end offset, read without the code under test."""
        place = TopicPartition(self.topic, 0)
        asked = self.bench.admin.list_offsets(
            {place: OffsetSpec.latest()}, isolation_level=isolation
        )
        return int(asked[place].result().offset)

    def settled_end(self) -> int:
        """The end offset after all transaction markers were written, which takes a moment."""
        stable = IsolationLevel.READ_COMMITTED
        wait_until(lambda: self.end(stable) == self.end(), "all transactions are decided")
        return self.end()

    def records(self) -> list[JournalRecord]:
        """Everything committed in it."""
        place = Place(self.topic, 0)
        with KafkaClusterReader(Connection("bench", self.bench.properties, timeout_s=40)) as reader:
            found = reader.following({place: 0}, 10_000)[place]
        assert isinstance(found, tuple), found
        return [decode(record.value) for record in found]

    def topics(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.bench.admin.list_topics(timeout=20).topics
        return found

    def delete(self) -> None:
        if self.topic in self.topics():
            for future in self.bench.admin.delete_topics([self.topic]).values():
                future.result()
            wait_until(lambda: self.topic not in self.topics(), "the topic is gone")


HOLDS = """
import json, os, sys
from dataclasses import replace
from drctl.model.errors import DrctlError
from tests.kafka.journal_place import *
given = json.loads(sys.stdin.readline())
place = JournalPlace(given["properties"], None, given["topic"], given["link"])
try:
    bert = holder(given["run"], "bert")
    if given["machine"]:
        bert = replace(bert, pid=os.getpid(), machine=given["machine"])
    with place.journal(beat_s=given["beat_s"]).acquire(bert) as held:
        print(json.dumps({"held": [line.decode() for line in held.lines]}), flush=True)
        for line in sys.stdin:
            if line.startswith("die "):
                from drctl.kafka.journal_topic import JournalWriter
                JournalWriter._commit = lambda writer, deadline: os._exit(9)
            held.append(named(line.split()[-1]))
            print(json.dumps({"appended": line.split()[-1]}), flush=True)
except DrctlError as error:
    given = {"kind": error.kind, "code": error.exit_code, "message": error.message}
    print(json.dumps(given), flush=True)
"""


class HolderProcess:
    """A process of bert's that acquires a link, or tries to; a context manager."""

    def __init__(
        self, place: JournalPlace, run: str, beat_s: float = BEAT_S, machine: str = ""
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        given = {"topic": place.topic, "link": place.link, "run": run, "beat_s": beat_s}
        given["machine"] = machine
        self.say(json.dumps({**given, "properties": dict(place.properties)}))

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self) -> Mapping[str, Any]:
        """The next line that it prints."""
        found: list[str] = []
        assert self._process.stdout is not None
        reading = Thread(
            target=lambda out: found.append(out.readline()), args=[self._process.stdout]
        )
        reading.start()
        reading.join(60)
        assert found, "the process says nothing"
        assert found[0], f"the process ended with {self._process.wait(20)}"
        given: Mapping[str, Any] = json.loads(found[0])
        return given

    def append(self, word: str) -> Mapping[str, Any]:
        self.say(word)
        return self.answer()

    def ended(self) -> int:
        return self._process.wait(30)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def __enter__(self) -> "HolderProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(20)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
