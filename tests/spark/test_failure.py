import pytest
from py4j.protocol import Py4JError

from drctl.spark.failure import cause_of, was_interrupted


def interrupted_while_working() -> None:
    try:
        raise KeyboardInterrupt
    finally:
        raise Py4JError("An error occurred while calling o31.sc")


def test_an_interrupt_hidden_by_a_cleanup_error() -> None:
    with pytest.raises(Py4JError) as caught:
        interrupted_while_working()
    assert was_interrupted(caught.value)


def test_an_error_without_an_interrupt() -> None:
    error = Py4JError("Answer from Java side is empty")
    assert not was_interrupted(error)
    assert cause_of(error) == "Answer from Java side is empty"
