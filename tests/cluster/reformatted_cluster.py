"""A cluster of a lab on empty disks: reformatted at its old addresses, with another id."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from secrets import token_hex

from drctl.lab.cluster import cluster_id
from drctl.lab.lab import Lab
from drctl.lab.processes import lab_mark, marked_processes
from drctl.lab.settings import BROKER, LabSettings, Secrets
from drctl.lab.starting import free_port_base


@contextmanager
def own_lab(root: Path) -> Iterator[Lab]:
    """Start a lab for tests that would break a shared one; assert that it is down at the end."""
    opened = Lab(root)
    try:
        opened.up(LabSettings(port_base=free_port_base(Random()), heap_mb=384))
        yield opened
    finally:
        opened.down()
        assert not marked_processes(lab_mark(root))


def reformat(lab: Lab, name: str) -> None:
    """Format its disks: all data and ACLs are gone; users keep their passwords.

    The cluster id follows from the secret that its brokers share.
    """
    before = cluster_id(lab.root, name)
    lab.signal(name, signal.SIGKILL)
    for broker in lab.cluster(name).brokers:
        shutil.rmtree(broker.part.folder / "data")
    shared = Secrets(lab.root / "secrets").file(name, BROKER)
    shared.write_text(token_hex(16), encoding="ascii")
    lab.start(name)
    assert cluster_id(lab.root, name) != before
