"""A check: a name, a function from observed state to verdicts, and its possible statuses."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, TypeVar

from drctl.checks.observed import Observed, silences
from drctl.checks.verdict import Judged, Verdict, verdicts
from drctl.model.finding import Finding, SharedCause, Status
from drctl.model.loss import Mode
from drctl.model.topology import Unavailable

SHOWN = 5


def listed(items: Collection[object], shown: int = SHOWN) -> str:
    """Join the first items, and state how many more there are."""
    first = ", ".join(map(str, islice(items, shown)))
    more = len(items) - shown
    return f"{first} and {more:,} more" if more > 0 else first


def nodes(ids: Collection[int]) -> str:
    """Brokers by their ids: `broker 1`, `brokers 1, 2`."""
    return f"{'broker' if len(ids) == 1 else 'brokers'} {listed(ids)}"


def several(items: Iterable[object]) -> str:
    """Like `listed`, with semicolons, for items that are phrases."""
    texts = list(map(str, items))
    more = [f"and {len(texts) - SHOWN:,} more"] if len(texts) > SHOWN else []
    return "; ".join([*texts[:SHOWN], *more])


def duration(milliseconds: int) -> str:
    """A duration in seconds, minutes or hours."""
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
    """The area of a check."""

    MIRRORMAKER = "mirrormaker2"
    REPLICATOR = "confluent-replicator"
    REACHABILITY = "reachability"
    SOURCE = "source"
    TARGET = "target"
    BROKERS = "brokers"
    REPLICATION = "replication"
    SOURCE_CONNECTORS = "source-connectors"
    RETENTION = "retention"
    PARITY = "parity"
    GROUPS = "groups"
    PRODUCERS = "producers"
    CLIENTS = "clients"
    FENCE = "fence"
    ENDPOINTS = "endpoints"
    JOURNAL = "journal"
    TRACKED_OFFSETS = "tracked-offsets"
    SECRETS = "secrets"

    @property
    def translates(self) -> bool:
        """Whether it applies only to the kind of replicator that it is named after."""
        return self in (Family.MIRRORMAKER, Family.REPLICATOR)

    def concerns(self, observed: Observed) -> bool:
        """Whether its checks apply to the link."""
        settings = observed.link.settings
        return not self.translates or (settings.replicator.kind == self and settings.translate)


class Prechecks(NamedTuple):
    """How a check is used as a precheck of a failover.

    Attributes:
        modes: the modes of failover that it is a precheck of.
        needed: the modes in which not-checked counts as fail.
        overridable: whether an engineer may override it.
    """

    modes: frozenset[Mode] = BOTH
    needed: frozenset[Mode] = frozenset()
    overridable: bool = True


Judge = Callable[[Observed], Judged]


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        about: what is true if it is ok, for messages.
        worse: the statuses that it can have beside ok and not-checked.
        judge: returns verdicts if the check applies, else None.
        prechecks: its use before a failover; None if only `doctor` runs it.
    """

    name: str
    family: Family
    about: str
    worse: tuple[Status, ...]
    judge: Judge
    prechecks: Prechecks | None = None

    @property
    def statuses(self) -> frozenset[Status]:
        """All statuses that it can have."""
        return frozenset((Status.OK, *self.worse, Status.NOT_CHECKED))

    def findings(self, observed: Observed) -> tuple[Finding, ...]:
        """Its findings; empty if it does not apply to the link or the mode of failover."""
        if self.prechecks is not None and observed.mode not in self.prechecks.modes:
            return ()
        if not self.family.concerns(observed):
            return ()
        return tuple(
            Finding(self.name, *verdict, cause=_shared_cause(verdict, observed))
            for verdict in verdicts(lambda: self.judge(observed))
        )


def _shared_cause(verdict: Verdict, observed: Observed) -> SharedCause | None:
    if verdict.status in (Status.OK, Status.WARN):
        return None
    text = f"{verdict.reason} {verdict.evidence}"
    return next((each for each in silences(observed) if each.why in text), None)


def check(
    name: str, family: Family, *worse: Status, prechecks: Prechecks | None = None
) -> Callable[[Judge], Check]:
    """Turn a function into a check; its docstring says what is true if it is ok."""
    return lambda judge: Check(name, family, first_line(judge), worse, judge, prechecks)


def first_line(judge: Callable[..., object]) -> str:
    """The first line of a docstring, as part of a sentence."""
    text = (judge.__doc__ or "").partition("\n")[0].rstrip(".")
    return text[:1].lower() + text[1:]


def split(answers: Mapping[K, T | Unavailable]) -> tuple[dict[K, T], dict[K, Unavailable]]:
    """Split answers into observed values and unavailable ones."""
    observed: dict[K, T] = {}
    unknown: dict[K, Unavailable] = {}
    for key, each in answers.items():
        if isinstance(each, Unavailable):
            unknown[key] = each
        else:
            observed[key] = each
    return observed, unknown


def reasons(unknown: Mapping[K, Unavailable]) -> str:
    """The reason of each unavailable value."""
    return several(f"{key}: {each.reason}" for key, each in unknown.items())
