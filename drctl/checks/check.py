"""A check: a name, a function from what was observed to verdicts, and what it may say."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, TypeVar

from drctl.checks.observed import Observed, silences
from drctl.checks.verdict import Said, Verdict, verdicts
from drctl.model.finding import Because, Finding, Status
from drctl.model.loss import Mode
from drctl.model.topology import Unavailable

SHOWN = 5


def listed(items: Collection[object], shown: int = SHOWN) -> str:
    """The first of them, and how many more there are."""
    first = ", ".join(map(str, islice(items, shown)))
    more = len(items) - shown
    return f"{first} and {more:,} more" if more > 0 else first


def several(items: Iterable[object]) -> str:
    """The same with semicolons, for items that are more than a word."""
    texts = list(map(str, items))
    more = [f"and {len(texts) - SHOWN:,} more"] if len(texts) > SHOWN else []
    return "; ".join([*texts[:SHOWN], *more])


def duration(milliseconds: int) -> str:
    """A time in words: seconds, minutes or hours."""
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:,.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:,.0f} min"
    return f"{seconds / 3600:,.0f} h"


K = TypeVar("K")
T = TypeVar("T")

BOTH = frozenset(Mode)
PLANNED, UNPLANNED = frozenset({Mode.PLANNED}), frozenset({Mode.UNPLANNED})


class Family(StrEnum):
    """What a check is about."""

    MIRRORMAKER = "mirrormaker2"
    REPLICATOR = "confluent-replicator"
    REACHABILITY = "reachability"
    SOURCE = "source"
    TARGET = "target"
    BROKERS = "brokers"
    REPLICATION = "replication"
    RETENTION = "retention"
    PARITY = "parity"
    GROUPS = "groups"
    PRODUCERS = "producers"
    CLIENTS = "clients"
    FENCE = "fence"
    ENDPOINTS = "endpoints"
    JOURNAL = "journal"
    ANCHORS = "anchors"
    SECRETS = "secrets"

    @property
    def translates(self) -> bool:
        """Whether it is about how one kind of replicator, of this name, translates offsets."""
        return self in (Family.MIRRORMAKER, Family.REPLICATOR)

    def concerns(self, observed: Observed) -> bool:
        """Whether it has anything to do with the link."""
        settings = observed.link.settings
        return not self.translates or (settings.replicator.kind == self and settings.translate)


class Prechecks(NamedTuple):
    """How a check counts as a precheck of a failover.

    Attributes:
        modes: the failovers that it is a precheck of.
        needed: the failovers that rest on its answer: there, not-checked counts as fail.
        overridable: whether an engineer may override it; where not, the run could not be made.
    """

    modes: frozenset[Mode] = BOTH
    needed: frozenset[Mode] = frozenset()
    overridable: bool = True


Judge = Callable[[Observed], Said]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that is looked at.

    Attributes:
        about: what is true where it is ok, in words for a person.
        worse: what it can say beside ok and not-checked.
        judge: gives one or more verdicts where the check applies, else None.
        guards: how it counts before a failover; None where only `doctor` runs it.
    """

    name: str
    family: Family
    about: str
    worse: tuple[Status, ...]
    judge: Judge
    prechecks: Prechecks | None = None

    @property
    def statuses(self) -> frozenset[Status]:
        """Everything that it can say."""
        return frozenset((Status.OK, *self.worse, Status.NOT_CHECKED))

    def findings(self, observed: Observed) -> tuple[Finding, ...]:
        """What it says; nothing where it does not concern the link, or the failover."""
        if self.prechecks is not None and observed.mode not in self.prechecks.modes:
            return ()
        if not self.family.concerns(observed):
            return ()
        return tuple(
            Finding(self.name, *verdict, because=_because(verdict, observed))
            for verdict in verdicts(lambda: self.judge(observed))
        )


def _because(verdict: Verdict, observed: Observed) -> Because | None:
    if verdict.status in (Status.OK, Status.WARN):
        return None
    text = f"{verdict.reason} {verdict.evidence}"
    return next((each for each in silences(observed) if each.why in text), None)


def check(
    name: str, family: Family, *worse: Status, prechecks: Prechecks | None = None
) -> Callable[[Judge], Check]:
    """Make a check of a function, whose docstring says what is true where it is ok."""
    return lambda judge: Check(name, family, first_line(judge), worse, judge, prechecks)


def first_line(judge: Callable[..., object]) -> str:
    """Of the docstring of a judge, as a part of a sentence."""
    text = (judge.__doc__ or "").partition("\n")[0].rstrip(".")
    return text[:1].lower() + text[1:]


def split(answers: Mapping[K, T | Unavailable]) -> tuple[dict[K, T], dict[K, Unavailable]]:
    """What was observed, and what was not."""
    observed: dict[K, T] = {}
    unknown: dict[K, Unavailable] = {}
    for key, each in answers.items():
        if isinstance(each, Unavailable):
            unknown[key] = each
        else:
            observed[key] = each
    return observed, unknown


def reasons(unknown: Mapping[K, Unavailable]) -> str:
    """Why each of them is not known."""
    return several(f"{key}: {each.reason}" for key, each in unknown.items())
