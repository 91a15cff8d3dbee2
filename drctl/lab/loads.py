"""`lab load`: produce flights to a cluster, in this process or in the background."""

import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined, unused-ignore]

from drctl.lab.cluster import LabCluster
from drctl.lab.lab import Lab
from drctl.lab.loading import LoadSpec, acks_file, failures_file, run_load, write_result, write_spec
from drctl.lab.processes import Part, lab_mark
from drctl.lab.settings import CLUSTERS
from drctl.lab.waiting import Patience
from drctl.model.document import Count, Document, Name, Seconds
from drctl.model.errors import Refused, Stopped, Unreachable
from drctl.model.text import plural

PARTITIONS = 4
_FIRST_ACK_S = 30
_STOP_S = 60


class LastLoad(Document):
    """A finished load."""

    acknowledged: Count
    failed: Count
    next_row: Count
    seconds: Seconds


class LoadDocument(Document):
    """A load of real records on a lab.

    Attributes:
        pid: process id; null if none runs.
        last: the most recent finished load; null while one runs.
    """

    SCHEMA = "drctl/lab-load/1"
    cluster: Annotated[str, ("enum", CLUSTERS)]
    running: bool
    pid: Annotated[int | None, ("minimum", 1)]
    acknowledged: Count
    failed: Count
    acks: Name
    failures: Name
    last: LastLoad | None


@dataclass(frozen=True, slots=True)
class Loads:
    """The loads of one lab; at most one background load per cluster."""

    lab: Lab

    def folder(self, cluster: str) -> Path:
        """The folder with the logs of all loads to this cluster."""
        return self.lab.root / "load" / cluster

    def spec(
        self,
        cluster: str = "primary",
        topic: str | None = None,
        start: int | None = None,
        count: int | None = None,
        rate: float = 0,
    ) -> LoadSpec:
        """Describe a load; without `start` it continues after the last row that any load sent."""
        name = topic or self.lab.parts.settings.mirrored
        first = self.next_row(name) if start is None else start
        return LoadSpec(str(self.lab.root), cluster, name, first, count, rate)

    def run(self, spec: LoadSpec) -> LoadDocument:
        """Run the load in this process.

        Raises:
            Unreachable: the cluster does not answer.
            Stopped: the producer failed.
        """
        ensure_topic(self.lab.cluster(spec.cluster), spec.topic)
        try:
            count = run_load(spec, self.folder(spec.cluster), threading.Event())
        except KafkaException as error:
            raise Stopped(f"the load failed: {error.args[0].str()}") from error
        write_result(count, self.folder(spec.cluster))
        if count.next_row == spec.start:
            raise Refused(
                f"no flights from record {spec.start} on", "start with the first record: --start 0"
            )
        return self.state(spec.cluster)

    def start(self, spec: LoadSpec) -> LoadDocument:
        """Run the load in the background, and wait for the first acknowledged row.

        Raises:
            Refused: one is already running.
            Unreachable: the cluster does not answer.
            Stopped: the process died, or no row was acknowledged.
        """
        part = self._part(spec.cluster)
        if part.process():
            raise Refused(
                f"a load to {spec.cluster} is already running",
                f"stop it: drctl lab load --stop --cluster {spec.cluster}",
            )
        ensure_topic(self.lab.cluster(spec.cluster), spec.topic)
        before = self._logged(spec.cluster)
        write_spec(spec, part.folder)
        (part.folder / "result.json").unlink(missing_ok=True)
        program = (sys.executable, "-P", "-m", "drctl.lab.loading")
        part.start((*program, str(part.folder), lab_mark(self.lab.root)))
        moving = Patience.of(_FIRST_ACK_S).wait_until(
            lambda: self._logged(spec.cluster) > before or part.process() is None
        )
        if part.process() is None and not (part.folder / "result.json").exists():
            raise Stopped(f"the load exited while starting:\n{part.log_tail()}")
        if not moving:
            raise Stopped(f"{spec.cluster} acknowledged no record within {_FIRST_ACK_S} s")
        return self.state(spec.cluster)

    def stop(self, cluster: str) -> LoadDocument:
        """Stop the background load after its in-flight rows.

        Raises:
            Refused: none was started.
        """
        part = self._part(cluster)
        if not (part.folder / "spec.json").exists():
            raise Refused(f"no background load to {cluster} was started")
        part.end(Patience.of(_STOP_S), gently=True)
        return self.state(cluster)

    def state(self, cluster: str) -> LoadDocument:
        """Whether a load runs, and the row counts of all loads to the cluster."""
        folder = self.folder(cluster)
        process = self._part(cluster).process()
        result = folder / "result.json"
        last = json.loads(result.read_text(encoding="utf-8")) if result.exists() else None
        return LoadDocument(
            cluster=cluster,
            running=process is not None,
            pid=process.pid if process else None,
            acknowledged=_lines(acks_file(folder)),
            failed=_lines(failures_file(folder)),
            acks=str(acks_file(folder)),
            failures=str(failures_file(folder)),
            last=LastLoad(**last) if last else None,
        )

    def next_row(self, topic: str) -> int:
        """The row after the last one that any load of this lab sent to the topic."""
        files = (f(self.folder(c)) for c in CLUSTERS for f in (acks_file, failures_file))
        return max(
            (e["row"] + 1 for f in files for e in _entries(f) if e["topic"] == topic), default=0
        )

    def _part(self, cluster: str) -> Part:
        return Part(f"load-{cluster}", self.folder(cluster), lab_mark(self.lab.root))

    def _logged(self, cluster: str) -> int:
        files = (acks_file(self.folder(cluster)), failures_file(self.folder(cluster)))
        return sum(file.stat().st_size for file in files if file.exists())


def acknowledged_rows(folder: Path, topic: str) -> dict[tuple[int, int], int]:
    """Row numbers by the partition and offset at which the cluster acknowledged them."""
    entries = _entries(acks_file(folder))
    return {(e["partition"], e["offset"]): e["row"] for e in entries if e["topic"] == topic}


def in_words(state: LoadDocument) -> str:
    """The load's state as text."""
    status = f"running, pid {state.pid}" if state.running else "not running"
    counts = f"{plural(state.acknowledged, 'record')} acknowledged, {state.failed:,} failed"
    return f"load to {state.cluster}: {status}; {counts}; log: {state.acks}"


def ensure_topic(cluster: LabCluster, topic: str, partitions: int = PARTITIONS) -> None:
    """Create the topic if it does not exist.

    Raises:
        Unreachable: the cluster does not answer.
    """
    admin = cluster.admin()
    new = NewTopic(topic, partitions)
    for future in admin.create_topics([new], operation_timeout=10, request_timeout=10).values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise Unreachable(
                    f"could not create topic {topic} on {cluster.name}: {error.args[0].str()}",
                    f"check: drctl lab status; start it: drctl lab start {cluster.name}",
                ) from error


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open(encoding="ascii") as file:
            yield from (json.loads(line) for line in file if line.endswith("\n"))


def _lines(path: Path) -> int:
    if not path.exists():
        return 0
    with path.open("rb") as file:
        return sum(1 for _ in file)
