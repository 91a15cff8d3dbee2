"""Go or no-go: what stands against a failover at this moment, and what it would cost."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from drctl.checks.causes import MOVED, causes_first
from drctl.checks.observed import Observed
from drctl.checks.registry import guard_findings
from drctl.checks.rpo import Rpo, TopicRpo, link_now, topics_now, unknown
from drctl.checks.standing import standing_against
from drctl.config.schema import PolicyConfig
from drctl.model.connectors import Connector
from drctl.model.errors import ExitCode
from drctl.model.failover import Mode
from drctl.model.finding import Finding, Status
from drctl.model.replication import LeftOut
from drctl.model.topology import Unavailable

NOT_ASKED = ("groups-left-out", "hanging-transactions", "producer-ids-collide")
"""Guards that take too long to be asked every few seconds; `doctor` asks them."""

_IF_LOST = "source-alive"
RPO = "policy.max_rpo_seconds"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a failover could begin.

    Attributes:
        blockers: for which it would be refused.
    """

    blockers: tuple[Finding, ...]

    @property
    def go(self) -> bool:
        """Nothing stands against it."""
        return not self.blockers


@dataclass(frozen=True, slots=True)
class GroupsNow:
    """Groups of the link, if the source were lost now.

    Attributes:
        groups: how many have positions in topics of the link.
        positions: that they have.
        left_out: positions of which nothing on the target tells where they are there.
        unknown: why that is not known; empty where it is.
    """

    groups: int = 0
    positions: int = 0
    left_out: tuple[LeftOut, ...] = ()
    unknown: str = ""

    @property
    def groups_left_out(self) -> tuple[str, ...]:
        """Names of those with such a position, sorted."""
        return tuple(sorted({row.group for row in self.left_out}))


@dataclass(frozen=True, slots=True)
class StatusNow:
    """One look.

    Attributes:
        took_s: how long it took, in seconds.
        planned: whether a planned failover could begin now.
        unplanned: whether an unplanned one could, if the source were lost now.
        others: what is to be known of beside.
        allowed: what the applications can bear.
        connectors: of the workers that replicate the link.
    """

    link: str
    source: str
    target: str
    at_ms: int
    took_s: float
    source_id: str | Unavailable
    target_id: str | Unavailable
    planned: Answer
    unplanned: Answer
    others: tuple[Finding, ...]
    rpo: Rpo
    allowed: PolicyConfig
    topics: tuple[TopicRpo, ...]
    groups: GroupsNow
    connectors: Mapping[str, Connector]

    @property
    def silent(self) -> tuple[str, ...]:
        """Clusters that did not answer."""
        ends = ((self.source, self.source_id), (self.target, self.target_id))
        return tuple(name for name, answer in ends if isinstance(answer, Unavailable))

    @property
    def exit_code(self) -> ExitCode:
        """5 where a cluster did not answer, 1 where something is no-go."""
        if self.silent:
            return ExitCode.UNKNOWN
        return ExitCode.DONE if self.planned.go and self.unplanned.go else ExitCode.FOUND


def judged(observed: Observed, groups: GroupsNow, lost: Rpo | None, took_s: float) -> StatusNow:
    """What was seen, judged.

    Args:
        lost: what is probably lost, where the source does not answer.
    """
    link = observed.link
    topics = topics_now(observed)
    why = observed.lag.reason if isinstance(observed.lag, Unavailable) else "it carries no topic"
    rpo = lost if lost is not None else link_now(topics, why)
    planned = _asked(replace(observed, mode=Mode.PLANNED))
    if any(f.check == MOVED and f.status is Status.FAIL for f in planned):
        # What the target lacks is not what clients would lose: they write to the target.
        topics, rpo = (), unknown(f"clients are on {link.target}")
    unplanned = _asked(replace(observed, mode=Mode.UNPLANNED))
    unplanned = causes_first((*unplanned, *_beyond(rpo, observed)))
    blocking = _standing(planned, Mode.PLANNED), _standing(unplanned, Mode.UNPLANNED)
    others = [f for f in planned if f.status is not Status.OK and f not in blocking[0]]
    connectors = observed.connectors
    return StatusNow(
        link.name,
        link.source,
        link.target,
        observed.now_ms,
        took_s,
        observed.source,
        observed.target,
        Answer(blocking[0]),
        Answer(blocking[1]),
        tuple(others),
        rpo,
        observed.policy,
        topics,
        groups,
        {} if isinstance(connectors, Unavailable) else connectors,
    )


def _asked(observed: Observed) -> tuple[Finding, ...]:
    """What the guards say; that the source is alive is no reproach."""
    beside = (*NOT_ASKED, _IF_LOST)
    found = tuple(f for f in guard_findings(observed) if f.check not in beside)
    return causes_first(found)


def _standing(findings: tuple[Finding, ...], mode: Mode) -> tuple[Finding, ...]:
    limits = tuple(f for f in findings if f.check == RPO)
    return (*standing_against((f for f in findings if f.check != RPO), (), mode), *limits)


def _beyond(rpo: Rpo, observed: Observed) -> tuple[Finding, ...]:
    """Where more would be lost than the applications can bear."""
    limit = observed.policy.max_rpo_seconds
    if rpo.seconds is None or rpo.seconds <= limit:
        return ()
    return (
        Finding(
            RPO,
            Status.FAIL,
            f"link {observed.link.name}",
            f"writes of the last {rpo.seconds:,.0f} s would be lost, {limit:g} s are allowed",
            rpo.how,
            "what was written since is on the source alone",
            "see why replication is behind: drctl doctor",
        ),
    )
