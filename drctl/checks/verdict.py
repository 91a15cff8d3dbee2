"""What a check says of something: ok, warn, fail or not-checked, with evidence, cost and remedy."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeVar

from drctl.checks.observed import NOT_LOOKED_AT
from drctl.model.finding import Status
from drctl.model.topology import Unavailable

T = TypeVar("T")


class Verdict(NamedTuple):
    """A finding without the name of its check."""

    status: Status
    subject: str
    reason: str
    evidence: str = ""
    cost: str = ""
    remedy: str = ""


class NotObserved(Exception):
    """What a check needs was not observed: it ends there, and says what to look at.

    It never ends a command: `Check.findings` makes a finding of it.
    """

    def __init__(self, subject: str, reason: str, remedy: str, evidence: str = "") -> None:
        super().__init__(reason)
        self.verdict = not_checked(subject, reason, remedy, evidence)


Said = Verdict | Iterable[Verdict] | None


def verdicts(judge: Callable[[], Said]) -> Iterator[Verdict]:
    """Every verdict of a judge; where it cannot observe something, that is its last one."""
    try:
        said = judge()
        yield from (said,) if isinstance(said, Verdict) else said or ()
    except NotObserved as end:
        yield end.verdict


def require(value: T | Unavailable, subject: str, what: str, remedy: str) -> T:
    """The value, where it was observed.

    Args:
        what: it is, in words that go before "not known".

    Raises:
        NotObserved: it was not observed.
    """
    if isinstance(value, Unavailable):
        raise NotObserved(subject, f"{what} not known: {value.reason}", remedy)
    return value


def require_asked(value: T | Unavailable, subject: str, what: str, remedy: str) -> T | Unavailable:
    """The same for checks of whether something answers: no answer is a value, too.

    Raises:
        NotObserved: nobody asked.
    """
    return require(value, subject, what, remedy) if value is NOT_LOOKED_AT else value


def separately(judges: Iterable[Callable[[], Verdict]]) -> Iterator[Verdict]:
    """One verdict each: what one of them cannot observe does not keep the others from judging."""
    return chain.from_iterable(map(verdicts, judges))


def ok(subject: str, reason: str, evidence: str = "", cost: str = "") -> Verdict:
    """All is well; it may cost something all the same."""
    return Verdict(Status.OK, subject, reason, evidence, cost)


def warn(subject: str, reason: str, evidence: str, cost: str, remedy: str) -> Verdict:
    """It would cost something."""
    return Verdict(Status.WARN, subject, reason, evidence, cost, remedy)


def fail(subject: str, reason: str, evidence: str, cost: str, remedy: str) -> Verdict:
    """A failover would go wrong."""
    return Verdict(Status.FAIL, subject, reason, evidence, cost, remedy)


def not_checked(subject: str, reason: str, remedy: str, evidence: str = "") -> Verdict:
    """Nobody looked, or nobody could; the remedy says what to look at."""
    return Verdict(Status.NOT_CHECKED, subject, reason, evidence, remedy=remedy)
