from py4j.protocol import Py4JError

from drctl.systems.spark.failure import cause_of, was_interrupted


def test_an_interrupt_under_an_error_of_the_tidying_up() -> None:
    try:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JError("An error occurred while calling o31.sc")
    except Py4JError as error:
        assert was_interrupted(error)


def test_an_error_of_its_own() -> None:
    try:
        raise Py4JError("Answer from Java side is empty")
    except Py4JError as error:
        assert not was_interrupted(error)
        assert cause_of(error) == "Answer from Java side is empty"
