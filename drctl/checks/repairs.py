"""Changes that align a link's target with its source, and differences to fix by hand.

The parity checks find differences. Each becomes a change of the target, or is left to the engineer,
with the reason and a command. Nothing is ever changed on the source, and nothing is deleted.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Generic, NamedTuple, TypeVar

from drctl.checks.observed import Observed
from drctl.model.endpoints import EndpointState
from drctl.model.finding import Finding, Status
from drctl.model.repairs import Acl, Alteration, ShapeReader, TopicShape, WantedTopic
from drctl.model.survey import Entity, Limit, QuotaReader
from drctl.model.text import plural
from drctl.model.topology import Unavailable

Change = TypeVar("Change", covariant=True)
Key = TypeVar("Key")

Shapes = Mapping[str, TopicShape | Unavailable | None]

NOT_OURS = (
    "an offset-preserving mirror creates and configures its topics itself: changes by drctl would"
    " conflict with it"
)


def keeps_its_topics(observed: Observed) -> bool:
    """Whether only the replicator may create and configure the copies."""
    return observed.link.settings.replicator.kind == "offset-preserving"


class Extension(NamedTuple):
    """The wanted number of partitions of a topic."""

    topic: str
    total: int


class LimitChange(NamedTuple):
    """A limit of a client quota: its current value, if it has one, and its wanted value."""

    entity: Entity
    key: str
    was: float | None
    to: float


class SettingChange(NamedTuple):
    """A topic setting: its current value and its wanted value."""

    topic: str
    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Fix(Generic[Change]):
    """One change of the target.

    Attributes:
        what: description of what is changed.
        before: current value.
        after: new value.
        why: why it matters for a failover.
        change: the change to make.
        note: additional information; may be empty.
    """

    what: str
    before: str
    after: str
    why: str
    change: Change
    note: str = ""


@dataclass(frozen=True, slots=True)
class Left:
    """One difference that drctl does not change.

    Attributes:
        check: the check of `doctor` that reports it.
        what: description of the difference.
        why: why drctl does not change it.
        impact: on a failover; empty if the check states it.
        remedy: how to fix it by hand.
    """

    check: str
    what: str
    why: str
    impact: str
    remedy: str


@dataclass(frozen=True, slots=True)
class ObservedTopics:
    """Input of the fixes in addition to the observed state.

    Attributes:
        ours: topics of the source, by name.
        theirs: their copies, by name.
        names: all topics of the target.
    """

    ours: Shapes
    theirs: Shapes
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Fixes:
    """All changes, in order: those that can be rolled back come first.

    Attributes:
        left: differences of the link to fix by hand.
        beyond: differences beyond this link, and values that could not be compared.
    """

    rules: tuple[Fix[Acl], ...] = ()
    quotas: tuple[Fix[LimitChange], ...] = ()
    settings: tuple[Fix[SettingChange], ...] = ()
    partitions: tuple[Fix[Extension], ...] = ()
    topics: tuple[Fix[WantedTopic], ...] = ()
    left: tuple[Left, ...] = ()
    beyond: tuple[Left, ...] = ()

    @property
    def changes(self) -> tuple[Fix[object], ...]:
        """All changes."""
        return (*self.rules, *self.quotas, *self.settings, *self.partitions, *self.topics)

    def __add__(self, other: "Fixes") -> "Fixes":
        return Fixes(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


PRECHECK = "clients-left-source"
_DONE = "done"
_IMPACT = "the target would be aligned with a source that clients no longer use"
_FAIL_BACK_FIRST = "fail back first: drctl failback; or use the link of the current direction"


def clients_left_source(observed: Observed) -> Finding:
    """Check by the endpoints and the journal that clients have not left the source."""
    link = observed.link
    subject = f"link {link.name}"
    moved = tuple(_moved(observed))
    if moved:
        details = "; ".join(moved)
        reason = f"clients were moved to {link.target}"
        return Finding(PRECHECK, Status.FAIL, subject, reason, details, _IMPACT, _FAIL_BACK_FIRST)
    runs = observed.survey.runs
    if isinstance(runs, Unavailable):
        reason = f"whether clients were moved is not known: {runs.reason}"
        return Finding(PRECHECK, Status.NOT_CHECKED, subject, reason, remedy="drctl journal")
    details = f"{plural(len(runs), 'run')} in the journal"
    return Finding(
        PRECHECK, Status.OK, subject, f"no run or endpoint moved them to {link.target}", details
    )


def _moved(observed: Observed) -> list[str]:
    found = []
    runs, endpoints = observed.survey.runs, observed.endpoints
    if not isinstance(runs, Unavailable):
        moves = (r for r in runs if r.status == _DONE and r.plan.startswith("fail"))
        newest = next(moves, None)
        if newest is not None and newest.plan.startswith("failover"):
            found.append(f"run {newest.run} ({newest.plan}) is done, with no failback since")
    if not isinstance(endpoints, Unavailable):
        for number, each in enumerate(endpoints, 1):
            if isinstance(each, EndpointState) and each.cluster == observed.link.target:
                found.append(f"endpoint {number} points to {each.cluster}")
    return found


_REMEDY = "check the target's policies and the permissions of drctl's user"


def validated(fixes: Fixes, target: ShapeReader, quotas: QuotaReader) -> Fixes:
    """Validate the changes on the target; those that it rejects are left, with its reason.

    Raises:
        Unreachable: the target did not answer.
    """
    answers = quotas.would_set(
        [Limit(f.change.entity, f.change.key, f.change.to) for f in fixes.quotas]
    )
    settings = [Alteration(f.change.topic, f.change.key, f.change.after) for f in fixes.settings]
    configured = target.would_configure(settings)
    extended = target.would_extend({f.change.topic: f.change.total for f in fixes.partitions})
    created = target.would_create([f.change for f in fixes.topics])
    throttled, unset = _parted(
        "quota-parity", fixes.quotas, answers, lambda c: Limit(c.entity, c.key, c.to)
    )
    taken, left = _parted("topic-config-parity", fixes.settings, configured, lambda c: c.topic)
    more, short = _parted("fewer-partitions-on-target", fixes.partitions, extended, _topic)
    made, missing = _parted("topics-missing-on-target", fixes.topics, created, lambda c: c.name)
    return replace(
        fixes,
        quotas=throttled,
        settings=taken,
        partitions=more,
        topics=made,
        left=(*fixes.left, *unset, *left, *short, *missing),
    )


def _topic(change: tuple[str, int]) -> str:
    return change[0]


def _parted(
    check: str,
    fixes: Iterable[Fix[Change]],
    answers: Mapping[Key, Unavailable | None],
    key: Callable[[Change], Key],
) -> tuple[tuple[Fix[Change], ...], tuple[Left, ...]]:
    taken: list[Fix[Change]] = []
    left: list[Left] = []
    for fix in fixes:
        why = answers.get(key(fix.change))
        if why is None:
            taken.append(fix)
        else:
            what = f"{fix.what}: {fix.before}, would be {fix.after}"
            left.append(Left(check, what, f"the target rejects it: {why.reason}", fix.why, _REMEDY))
    return tuple(taken), tuple(left)
