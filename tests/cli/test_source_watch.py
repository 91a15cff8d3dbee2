"""A source that is given up is asked beside the steps; a decision rests on what is fresh."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from drctl.app import link_reader
from drctl.app.link_reader import SourceWatch
from drctl.model.errors import Unreachable


class Source:
    """Silent, until it is not."""

    def __init__(self) -> None:
        self.silent = True
        self.asked = 0
        self.takes = threading.Event()
        self.takes.set()

    def __call__(self) -> None:
        self.asked += 1
        assert self.takes.wait(10)
        if self.silent:
            raise Unreachable("nobody answered")


@contextmanager
def watching(source: Source) -> Iterator[SourceWatch]:
    watch = SourceWatch(source)
    try:
        yield watch
    finally:
        watch.close()


def test_silence_is_told_at_once_and_whoever_is_back_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_reader, "_WATCH_PAUSE_S", 0.1)
    source = Source()
    with watching(source) as watch:
        with pytest.raises(Unreachable):
            watch.newest()
        asked = source.asked
        began = time.monotonic()
        with pytest.raises(Unreachable):
            watch.newest()
        assert time.monotonic() - began < 0.3
        source.silent = False
        until = time.monotonic() + 10
        while source.asked < asked + 3 and time.monotonic() < until:
            time.sleep(0.02)
        watch.newest()


def test_nothing_is_decided_on_an_answer_that_is_old() -> None:
    source = Source()
    with watching(source) as watch:
        with pytest.raises(Unreachable):
            watch.newest()
        source.takes.clear()
        source.silent = False
        time.sleep(0.3)
        threading.Timer(0.1, source.takes.set).start()
        # The one that is under way is waited for: silence of a while ago counts no more.
        watch.newest(fresh_s=0.2)
