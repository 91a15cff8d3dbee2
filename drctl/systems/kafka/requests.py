"""Ask many things at once, and again what was not answered, until the deadline."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from itertools import chain, repeat
from typing import Any, TypeVar

from drctl.model.errors import Unreachable
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.faults import Fault, fault_of

K = TypeVar("K", bound=Hashable)

Asked = Iterable[tuple[K, "Future[Any] | Fault"]]
"""What one round of requests is: a future for each question, or what is known already."""

_SETTLE_S = 1.0
_PAUSES_S = (0.05, 0.1, 0.2, 0.5)
GRACE_S = 1.0
"""How much longer than its timeout a request may take to say that it timed out."""


def gather(
    connection: Connection,
    questions: Collection[K],
    ask: Callable[[Collection[K], float, Deadline], Asked[K]],
    deadline: Deadline,
    accept: Callable[[Any], Any] = lambda value: value,
) -> Mapping[K, Any]:
    """Each question's answer, or the `Fault` that it ended with.

    `ask` starts all requests of a round with the given timeout and returns without waiting;
    `accept` turns a value that is none into a `Fault`.

    Raises:
        Unreachable: no broker answered, and nothing had been answered before.
    """
    answers: dict[K, Any] = {}
    pending: Collection[K] = tuple(dict.fromkeys(questions))
    settled, waits = settled_by(deadline), pauses()
    for timeout in deadline.attempts():
        if not pending:
            break
        try:
            asked = list(ask(pending, timeout, deadline))
        except Unreachable:
            if not answers:
                raise
            break
        until = Deadline.after(timeout + GRACE_S)
        for key, future in asked:
            answers[key] = accept(outcome(future, until.remaining))
        pending = [key for key in pending if again(answers[key], settled)]
        connection.wait(min(next(waits), deadline.remaining) if pending else 0)
    return answers


def in_chunks(items: Collection[K], size: int) -> Iterable[list[K]]:
    """The items in lists of at most `size`."""
    held = list(items)
    return (held[at : at + size] for at in range(0, len(held), size))


def settled_by(deadline: Deadline) -> Deadline:
    """Until when to hope that an election ends."""
    return Deadline.after(min(_SETTLE_S, deadline.total / 2))


def pauses() -> Iterator[float]:
    """Seconds between a round of requests and the next, growing."""
    return chain(_PAUSES_S, repeat(_PAUSES_S[-1]))


def outcome(future: "Future[Any] | Fault", timeout: float) -> Any:
    """The value of a future, or the `Fault` that it ended with."""
    if isinstance(future, Fault):
        return future
    try:
        error = future.exception(timeout)
    except TimeoutError as late:
        return fault_of(late)
    return future.result() if error is None else fault_of(error)


def again(answer: Any, settled: Deadline) -> bool:
    """Whether to ask again."""
    if not isinstance(answer, Fault):
        return False
    return answer.retried or (answer.settles and not settled.expired)
