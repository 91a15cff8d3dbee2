"""An abandoned source is probed beside the steps, and decisions use only recent results."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from drctl.host import connections
from drctl.host.connections import ProbeLoop
from drctl.model.errors import Unreachable


class Source:
    """A cluster that becomes reachable."""

    def __init__(self) -> None:
        self.unreachable = True
        self.probes = 0
        self.takes = threading.Event()
        self.takes.set()

    def __call__(self) -> None:
        self.probes += 1
        assert self.takes.wait(10)
        if self.unreachable:
            raise Unreachable("no answer")


@contextmanager
def probing(source: Source) -> Iterator[ProbeLoop]:
    loop = ProbeLoop(source)
    try:
        yield loop
    finally:
        loop.close()


def test_results_are_available_at_once_and_recovery_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_LOOP_PAUSE_S", 0.1)
    source = Source()
    with probing(source) as loop:
        with pytest.raises(Unreachable):
            loop.newest()
        probes = source.probes
        began = time.monotonic()
        with pytest.raises(Unreachable):
            loop.newest()
        assert time.monotonic() - began < 0.3
        source.unreachable = False
        until = time.monotonic() + 10
        while source.probes < probes + 3 and time.monotonic() < until:
            time.sleep(0.02)
        loop.newest()


def test_old_results_are_not_used() -> None:
    source = Source()
    with probing(source) as loop:
        with pytest.raises(Unreachable):
            loop.newest()
        source.takes.clear()
        source.unreachable = False
        time.sleep(0.3)
        threading.Timer(0.1, source.takes.set).start()
        # Waits for the probe in progress, because the failure before it is too old.
        loop.newest(fresh_s=0.2)
