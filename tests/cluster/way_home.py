"""A link whose primary was lost and is back, on the clusters of the lab, and the way home."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError

from drctl.lab.cluster import read_topic
from drctl.lab.lab import Lab
from drctl.lab.waiting import Patience
from tests.cluster.conftest import NewDrctl
from tests.cluster.link_command import LinkCommand
from tests.lab.cluster_under_test import QUIET, ClusterUnderTest

APP = "orders-app"
PARTITIONS = 2
COPIED, TAIL, NEW, LATER = 60, 20, 40, 30
GO = ("--execute", "--yes")
DEADLINE_S = 240.0


class Journey(LinkCommand):
    """A link whose primary was lost and is back, and applications on the secondary."""

    deadline_s = DEADLINE_S

    def __init__(
        self,
        lab: Lab,
        new_drctl: NewDrctl,
        topic: str,
        beside: Mapping[str, Any] | None = None,
        **link: Any,
    ) -> None:
        self.lab = lab
        self.primary = ClusterUnderTest(lab.cluster("primary"))
        self.secondary = ClusterUnderTest(lab.cluster("secondary"))
        self.topic = topic
        self.group = f"orders-app-{uuid4().hex[:8]}"
        self.link = f"link-{uuid4().hex[:6]}"
        section = {
            "from": "primary",
            "to": "secondary",
            "topics": [topic],
            "groups": [self.group],
            "fence": {"method": "acl", "principals": [f"User:{APP}"]},
            "endpoints": [{"kind": "file", "path": "bootstrap"}],
            **link,
        }
        self.drctl = new_drctl({self.link: section, **(beside or {})})
        self.lead_to("secondary")

    def name_on(self, cluster: ClusterUnderTest) -> str:
        """What the topic is called there."""
        return self.topic

    def replicate(self, running: bool) -> None:
        """Let the old replication copy, or stop it."""
        self.lab.replicate(running)

    def lose_the_primary(self) -> None:
        """Copied records on both sides, a tail on the primary only, new ones on the secondary."""
        self.write("copied", COPIED, self.primary)
        assert Patience.of(60).wait_until(lambda: self.held(self.secondary) >= COPIED)
        self.replicate(False)
        self.write("tail", TAIL, self.primary)
        self.write("new", NEW, self.secondary)

    def write(
        self, prefix: str, count: int, cluster: ClusterUnderTest, *, keys: str = ""
    ) -> list[str]:
        """Write as the application; what was acknowledged.

        Args:
            keys: what their keys begin with; else no record is older than another of its key.
        """
        acknowledged: list[str] = []

        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                acknowledged.append(message.value().decode())

        producer = cluster.producer(APP, delivery__timeout__ms=10_000)
        for number in range(count):
            value, key = f"{prefix}-{number}", f"{keys or prefix}-{number}"
            producer.produce(self.name_on(cluster), key=key, value=value, on_delivery=told)
        producer.flush(30)
        return acknowledged

    @contextmanager
    def writing(self) -> "Iterator[list[str]]":
        """An application that goes on writing to the secondary until it is refused."""
        acknowledged: list[str] = []
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                written = self.write(f"live{number}", 5, self.secondary)
                acknowledged.extend(written)
                number += 1
                if len(written) < 5:
                    return
                stop.wait(0.5)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield acknowledged
        finally:
            stop.set()
            thread.join(60)

    def read(self, group: str, cluster: ClusterUnderTest, wanted: set[str]) -> list[str]:
        """Read as the group does, from where it stands, until it has all of these; commit."""
        settings = {"group.id": group, "enable.auto.commit": False, "session.timeout.ms": 6000}
        consumer = Consumer(
            {**cluster.properties(), **settings, "auto.offset.reset": "earliest"}, logger=QUIET
        )
        values: list[str] = []

        def enough() -> bool:
            for message in consumer.consume(500, timeout=0.2):
                assert message.error() is None, message.error()
                values.append((message.value() or b"").decode())
            return wanted <= set(values)

        try:
            consumer.subscribe([self.name_on(cluster)])
            assert Patience.of(60).wait_until(enough), sorted(wanted - set(values))
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def judged_at_home(self) -> None:
        """What `--check-order` says of a failback that is over, here and on another machine."""
        for elsewhere in (False, True):
            if elsewhere:
                self.move_to_another_machine()
            found = self.json("failback", "--check-order", code=0)
            observed = "".join(step["observed"][0] for step in found["steps"])
            assert (observed, found["verdict"], found["next"]) == ("d" * 11, "ok", None), found
            assert found["state"] == "completed"

    def all_of(self, cluster: ClusterUnderTest) -> Counter[str]:
        """Every record, by a plain consumer."""
        held = read_topic(cluster.lab_cluster, self.name_on(cluster))
        return Counter(value.decode() for value in held.values())

    def held(self, cluster: ClusterUnderTest) -> int:
        return sum(cluster.end_offsets(self.name_on(cluster)).values())

    def lead_to(self, cluster: str) -> None:
        (self.drctl.folder / "bootstrap").write_text(
            f"{getattr(self, cluster).bootstrap}\n", encoding="utf-8"
        )

    @property
    def led_to(self) -> str:
        return (self.drctl.folder / "bootstrap").read_text(encoding="utf-8").strip()

    def states(self, *names: str) -> list[str]:
        client = self.lab.parts.worker.client()
        try:
            return [client.status(name).state for name in names]
        finally:
            client.close()

    def stop(self, connector: str) -> None:
        """As an engineer does, by Connect."""
        client = self.lab.parts.worker.client()
        try:
            client.stop(connector)
            stopped = lambda: client.status(connector).all_in("STOPPED")  # noqa: E731
            assert Patience.of(60).wait_until(stopped)
        finally:
            client.close()

    def read_on(self, before: list[str], wanted: set[str]) -> list[str]:
        """Read at home what the group lacks; no more of it again than drctl has said it would.

        Args:
            before: what the group has read where it was.
            wanted: everything that it has to have read in the end.
        """
        found = self.read(self.group, self.primary, wanted - set(before))
        again = [value for value in found if value in set(before)]
        assert len(again) <= self.rereads_at_most(), f"{len(again)} were read again: {again[:9]}"
        return found

    def rereads_at_most(self) -> int:
        """Records that the group may read again, as the newest run said when it put it there."""
        said = [
            each["intent"]["rereads"].get(self.group, 0)
            for each in self.journaled()
            if each["entry"] == "intend" and each["step"].endswith("commit-offsets")
        ]
        assert said, "the run put no group anywhere"
        return int(max(said))

    def begins(self, step: str) -> dict[int, int]:
        """Where drctl says that copying has to begin, by partition, once it asks for that."""
        name = f"begin-{step}.csv"

        def files() -> list[Path]:
            return [*self.drctl.folder.glob(f".drctl/runs/*/{name}")]

        assert Patience.of(DEADLINE_S).wait_until(lambda: bool(files())), self.said
        (file,) = files()
        rows = [line.split(",") for line in file.read_text(encoding="utf-8").splitlines()]
        (asked,) = [
            e["intent"] for e in self.journaled() if e["entry"] == "intend" and e["step"] == step
        ]
        for topic, number, at in rows:
            assert topic == self.topic
            assert f"{topic}-{number} offset {at}" in asked["text"]
        return {int(number): int(at) for _, number, at in rows}

    def kill_at(self, step: str, *words: str) -> None:
        """Run it, and kill it as soon as its journal announces a step."""
        with self.running(*words) as process:

            def announced() -> bool:
                assert process.poll() is None, self.said
                return any(e["entry"] == "intend" and e["step"] == step for e in self.journaled())

            # A transaction that was killed before may have to be waited for.
            assert Patience.of(DEADLINE_S).wait_until(announced)
            os.kill(process.pid, signal.SIGKILL)


def steps_of(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {step["id"]: step[name] for step in result["steps"]}


def named(prefix: str, count: int) -> set[str]:
    return {f"{prefix}-{number}" for number in range(count)}
