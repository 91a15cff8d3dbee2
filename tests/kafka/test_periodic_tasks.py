"""Periodic tasks: they run until stopped, and stopping does not wait forever."""

from threading import Event

from drctl.kafka.deadline import PeriodicTask
from tests.kafka.tls_broker import wait_until


def test_it_runs_until_it_is_stopped() -> None:
    seen: list[int] = []
    with PeriodicTask(0.001, lambda: seen.append(1)) as beats:
        wait_until(lambda: len(seen) > 3, "four calls")
    count = len(seen)
    assert not beats._thread.is_alive()
    assert beats.stop(), "the second stop failed"
    assert len(seen) == count


def test_the_first_call_is_after_one_interval() -> None:
    seen: list[int] = []
    with PeriodicTask(60, lambda: seen.append(1)):
        pass
    assert not seen


def test_a_hanging_call_does_not_block_stopping() -> None:
    begun, resumed = Event(), Event()

    def hang() -> None:
        begun.set()
        resumed.wait(60)

    beats = PeriodicTask(0.001, hang)
    beats.start()
    assert begun.wait(20)
    assert not beats.stop(0.01)
    resumed.set()
    assert beats.stop(20)


def test_a_task_that_never_started_can_be_stopped() -> None:
    assert PeriodicTask(60, lambda: None).stop()
