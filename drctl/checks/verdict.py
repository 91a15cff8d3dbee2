"""What a check reports: ok, warn, fail or not-checked, with evidence, impact and remedy."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeVar

from drctl.checks.observed import NOT_QUERIED
from drctl.model.finding import Status
from drctl.model.topology import Unavailable

T = TypeVar("T")


class Verdict(NamedTuple):
    """A finding without the name of its check."""

    status: Status
    subject: str
    reason: str
    evidence: str = ""
    impact: str = ""
    remedy: str = ""


class NotObserved(Exception):
    """A value that a check needs was not observed: the check ends as not-checked.

    `Check.findings` turns it into a finding.
    """

    def __init__(self, subject: str, reason: str, remedy: str, evidence: str = "") -> None:
        super().__init__(reason)
        self.verdict = not_checked(subject, reason, remedy, evidence)


Judged = Verdict | Iterable[Verdict] | None


def verdicts(judge: Callable[[], Judged]) -> Iterator[Verdict]:
    """The verdicts of a judge; if a value is missing, the last one is not-checked."""
    try:
        result = judge()
        yield from (result,) if isinstance(result, Verdict) else result or ()
    except NotObserved as end:
        yield end.verdict


def require(value: T | Unavailable, subject: str, what: str, remedy: str) -> T:
    """Return the value if it was observed.

    Args:
        what: the value and its verb, as in "their age is"; the reason continues with "not known".

    Raises:
        NotObserved: it was not observed.
    """
    if isinstance(value, Unavailable):
        raise NotObserved(subject, f"{what} not known: {value.reason}", remedy)
    return value


def require_queried(
    value: T | Unavailable, subject: str, what: str, remedy: str
) -> T | Unavailable:
    """Like `require`, for checks of reachability, for which "does not answer" is an answer.

    Raises:
        NotObserved: it was not queried.
    """
    return require(value, subject, what, remedy) if value is NOT_QUERIED else value


def separately(judges: Iterable[Callable[[], Verdict]]) -> Iterator[Verdict]:
    """Run each judge on its own, so that one missing value does not stop the others."""
    return chain.from_iterable(map(verdicts, judges))


def ok(subject: str, reason: str, evidence: str = "", impact: str = "") -> Verdict:
    """An ok verdict; it may still have an impact."""
    return Verdict(Status.OK, subject, reason, evidence, impact)


def warn(subject: str, reason: str, evidence: str, impact: str, remedy: str) -> Verdict:
    """A warn verdict: it would cause trouble in a failover."""
    return Verdict(Status.WARN, subject, reason, evidence, impact, remedy)


def fail(subject: str, reason: str, evidence: str, impact: str, remedy: str) -> Verdict:
    """A fail verdict: a failover would fail or lose data."""
    return Verdict(Status.FAIL, subject, reason, evidence, impact, remedy)


def not_checked(subject: str, reason: str, remedy: str, evidence: str = "") -> Verdict:
    """A not-checked verdict; the remedy says what to check by hand."""
    return Verdict(Status.NOT_CHECKED, subject, reason, evidence, remedy=remedy)
