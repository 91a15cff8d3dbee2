"""A load that goes on in a process of its own, and the log of what was acknowledged.

`python -m drctl.lab.background FOLDER MARK` is that process; `FOLDER/spec.json` says what to do.
"""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from drctl.lab.cluster import LabCluster
from drctl.lab.files import private_folder, write_private
from drctl.lab.flights import flights
from drctl.lab.loading import Ack, Failure, LoadCount, load
from drctl.lab.settings import stored_settings

_REPORT_S = 0.5


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """What to load.

    Attributes:
        root: of the lab.
        start: first row; rows are numbered in order of event time.
        count: rows at most; None is all there are.
        rate: records a second; 0 is as fast as the cluster takes them.
    """

    root: str
    cluster: str
    topic: str
    start: int
    count: int | None
    rate: float
    user: str = "orders-app"


class AckLog:
    """`acks.jsonl`: a line for each acknowledged row; `failures.jsonl`: one for each other."""

    def __init__(self, acks: TextIO, failures: TextIO) -> None:
        self._acks = acks
        self._failures = failures

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator["AckLog"]:
        """Append to the files in this folder; every line is there as soon as it is written."""
        private_folder(folder)
        with (
            acks_file(folder).open("a", buffering=1, encoding="ascii") as acks,
            failures_file(folder).open("a", buffering=1, encoding="ascii") as failures,
        ):
            yield cls(acks, failures)

    def acknowledged(self, ack: Ack) -> None:
        """The cluster has it."""
        self._acks.write(
            f'{{"row": {ack.row}, "topic": {json.dumps(ack.topic)}, '
            f'"partition": {ack.partition}, "offset": {ack.offset}}}\n'
        )

    def failed(self, failure: Failure) -> None:
        """Nobody knows whether the cluster has it."""
        self._failures.write(json.dumps(asdict(failure)) + "\n")


def acks_file(folder: Path) -> Path:
    """Every acknowledged row of the loads to this cluster."""
    return folder / "acks.jsonl"


def failures_file(folder: Path) -> Path:
    """Every row that was tried and not acknowledged."""
    return folder / "failures.jsonl"


def run_load(spec: LoadSpec, folder: Path, stop: threading.Event) -> LoadCount:
    """Do the load in this process.

    Raises:
        KafkaException: the producer cannot go on at all.
    """
    root = Path(spec.root)
    settings = stored_settings(root)
    if settings is None:
        raise FileNotFoundError(root)
    properties = LabCluster(root, settings, spec.cluster).client_properties(spec.user)
    rows = flights(spec.start, spec.count)
    with AckLog.opened(folder) as log:
        count = load(
            properties, spec.topic, rows, log.acknowledged, log.failed, spec.rate, stop.is_set
        )
    count.next_row = max(count.next_row, spec.start)
    return count


def write_spec(spec: LoadSpec, folder: Path) -> None:
    """Leave the order where the process finds it."""
    write_private(folder / "spec.json", json.dumps(asdict(spec)) + "\n")


def read_spec(folder: Path) -> LoadSpec:
    """The order."""
    return LoadSpec(**json.loads((folder / "spec.json").read_text(encoding="utf-8")))


def write_result(count: LoadCount, folder: Path) -> None:
    """Say how it ended."""
    result = {
        "acknowledged": count.acknowledged,
        "failed": count.failed,
        "next_row": count.next_row,
        "seconds": round(count.seconds, 3),
    }
    write_private(folder / "result.json", json.dumps(result) + "\n")


def main(folder: Path) -> None:
    """Load until the rows end or SIGTERM comes, then say how it ended."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    write_result(run_load(read_spec(folder), folder, stop), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
