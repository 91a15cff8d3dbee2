"""Class data archives of Kafka and Connect, recorded from a short-lived lab."""

import random
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from drctl.artifacts.jars import resolve
from drctl.artifacts.java import class_archive, find_java, keep
from drctl.lab.cluster import runs_broker
from drctl.lab.lab import Lab, Progress
from drctl.lab.processes import end_processes, lab_mark, marked_processes, recorded_classes
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base
from drctl.lab.waiting import Patience
from drctl.lab.worker import CONNECT

_KINDS = {"kafka": "primary-1", "connect": CONNECT}
_HEAP_MB = 384
_WRITTEN_S = 120


def record_classes(progress: Progress) -> None:
    """Record class data archives, so that labs on this machine start faster.

    Raises:
        Refused: Java, memory or a port is missing.
        Unknown: the jars could not be fetched, or are corrupt.
        Stopped: a component did not start, or recorded nothing.
    """
    archives = {
        part: class_archive(resolve(kind, progress=progress)[0].parent)
        for kind, part in _KINDS.items()
    }
    if all(archive.is_file() for archive in archives.values()):
        return
    progress("Recording class data of Kafka and Connect (once)")
    with tempfile.TemporaryDirectory(prefix="drctl-classes-") as scratch:
        lab = Lab(Path(scratch) / "lab", recording=True)
        try:
            lab.up(LabSettings(port_base=free_port_base(random.Random()), heap_mb=_HEAP_MB))
            _end(lab)
            for part, archive in archives.items():
                keep(recorded_classes(lab.root, part), archive, partial(_trial, archive.parent))
        finally:
            lab.down()


def _trial(jars: Path, options: Sequence[str]) -> tuple[str, ...]:
    return (str(find_java()), *options, "-cp", f"{jars}/*", "-version")


def _end(lab: Lab) -> None:
    # Stop Connect first: it cannot leave its group without brokers. A killed JVM writes nothing.
    patience = Patience.of(_WRITTEN_S)
    running = marked_processes(lab_mark(lab.root))
    end_processes([each for each in running if not runs_broker(each)], patience, gently=True)
    end_processes(running, patience, gently=True)
