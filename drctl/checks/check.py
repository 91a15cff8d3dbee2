"""A check: a name, a function from what was observed to verdicts, and what it may say."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from drctl.checks.observed import Observed
from drctl.model.finding import Finding, Status


class Family(StrEnum):
    """What a check is about; the names are the kinds of replicator that it concerns."""

    MIRRORMAKER = "mirrormaker2"
    REPLICATOR = "confluent-replicator"


class Verdict(NamedTuple):
    """A finding whose check goes without saying."""

    status: Status
    subject: str
    reason: str
    evidence: str = ""
    cost: str = ""
    cure: str = ""


class NotObserved(Exception):
    """What a check needs was not seen: it ends there, and says what to look at.

    It is no ending of a command: `Check.findings` makes a finding of it.
    """

    def __init__(self, subject: str, reason: str, cure: str, evidence: str = "") -> None:
        super().__init__(reason)
        self.verdict = Verdict(Status.NOT_CHECKED, subject, reason, evidence, cure=cure)


Judge = Callable[[Observed], Iterable[Verdict]]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked at.

    Attributes:
        about: what is true where it is ok, in words for a person.
        worse: what it can say beside ok and not-checked.
        judge: says at least one thing where the check applies.
    """

    name: str
    family: Family
    about: str
    worse: tuple[Status, ...]
    judge: Judge

    @property
    def statuses(self) -> frozenset[Status]:
        """Everything that it can say."""
        return frozenset((Status.OK, *self.worse, Status.NOT_CHECKED))

    def findings(self, observed: Observed) -> tuple[Finding, ...]:
        """What it says; nothing where it does not concern the link."""
        settings = observed.link.settings
        if settings.replicator.kind != self.family or not settings.translate:
            return ()
        return tuple(Finding(self.name, *verdict) for verdict in self._verdicts(observed))

    def _verdicts(self, observed: Observed) -> Iterator[Verdict]:
        try:
            yield from self.judge(observed)
        except NotObserved as end:
            yield end.verdict


def check(name: str, family: Family, about: str, *worse: Status) -> Callable[[Judge], Check]:
    """Make a check of a function."""
    return lambda judge: Check(name, family, about, worse, judge)


def separately(judges: Iterable[Callable[[], Verdict]]) -> Iterator[Verdict]:
    """One verdict each: what one of them cannot see does not keep the others from being judged."""
    for judge in judges:
        try:
            yield judge()
        except NotObserved as end:
            yield end.verdict


def ok(subject: str, reason: str, evidence: str = "", cost: str = "") -> Verdict:
    """All is well; it may cost something all the same."""
    return Verdict(Status.OK, subject, reason, evidence, cost)


def warn(subject: str, reason: str, evidence: str, cost: str, cure: str) -> Verdict:
    """It would cost something."""
    return Verdict(Status.WARN, subject, reason, evidence, cost, cure)


def fail(subject: str, reason: str, evidence: str, cost: str, cure: str) -> Verdict:
    """A failover would go wrong."""
    return Verdict(Status.FAIL, subject, reason, evidence, cost, cure)
