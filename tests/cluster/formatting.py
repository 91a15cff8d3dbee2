"""A cluster of a lab on empty disks: formatted anew, at its old addresses, with another id."""

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from secrets import token_hex

from drctl.lab.broker import cluster_id
from drctl.lab.guards import free_port_base
from drctl.lab.jvm import lab_mark
from drctl.lab.lab import Lab
from drctl.lab.process import marked_processes
from drctl.lab.secrets import BROKER, Secrets
from drctl.lab.settings import LabSettings


@contextmanager
def own_lab(root: Path) -> Iterator[Lab]:
    """One that no other test knows, for what none of them would outlive; proven down at the end."""
    opened = Lab(root)
    try:
        opened.up(LabSettings(port_base=free_port_base(Random()), heap_mb=384))
        yield opened
    finally:
        opened.down()
        assert not marked_processes(lab_mark(root))


def format_anew(lab: Lab, name: str) -> None:
    """Whatever it held is gone, its rules with it; users have the passwords that they had.

    Its id follows from the secret that its brokers share.
    """
    before = cluster_id(lab.root, name)
    lab.signal(name, signal.SIGKILL)
    for broker in lab.cluster(name).brokers:
        shutil.rmtree(broker.part.folder / "data")
    shared = Secrets(lab.root / "secrets").file(name, BROKER)
    shared.write_text(token_hex(16), encoding="ascii")
    lab.start(name)
    assert cluster_id(lab.root, name) != before
