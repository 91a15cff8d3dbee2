"""Probes whether ACLs that drctl adds stay: a Kubernetes operator may delete ACLs of others.

Strimzi's User Operator (SimpleAclOperator) deletes such ACLs at each reconciliation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from drctl.engine.kind import Description, Facts, Permanent, Readback, State, StepKind, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.fencing import PROBE_TOPIC, Denied, Topics, denials, sign
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.model.typed_json import Number
from drctl.steps.fences import FENCE_PRODUCERS, AclFenceIntent, enforced_acls

F = TypeVar("F")

VISIBLE_S = 30.0
"""How long to wait until brokers answer and have applied changed ACLs."""


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """The principals of the fence, and how long their ACLs are watched.

    Attributes:
        link: the link's name, which marks the ACLs.
    """

    cluster: str
    principals: tuple[str, ...]
    link: str
    seconds: Number


@dataclass(frozen=True, kw_only=True)
class ProbeIntent(AclFenceIntent):
    """The ACLs of the probe.

    Attributes:
        seconds: how long they are watched.
    """

    seconds: Number


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """Whether the ACLs of a probe stayed.

    Attributes:
        acls: how many were added.
        deleted: how many of them somebody deleted.
        seconds: how long they were watched.
    """

    principals: tuple[str, ...]
    acls: int
    deleted: int
    seconds: Number


def _intent(settings: ProbeSettings) -> ProbeIntent:
    rules = denials(settings.principals, [Topics(PROBE_TOPIC)], [Denied.WRITE])
    return ProbeIntent(
        cluster=settings.cluster,
        topics=(),
        stabilize_seconds=0,
        link=settings.link,
        rules=rules,
        added=rules,
        seconds=settings.seconds,
    )


class ProbeAcls(StepKind[ProbeSettings, ProbeIntent, ProbeFacts]):
    """Adds ACLs for the fence's principals on a topic that does not exist, and watches them."""

    name = "probe-acls"
    # Its own prechecks are enough: it touches no topic, and removes exactly what it has added.
    traits = Trait.RUNS_PRECHECKS | Trait.SNAPSHOTS_STATE | Trait.CHANGES

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._begun: float | None = None
        self._since: float | None = None

    def describe(self, settings: ProbeSettings) -> Description:
        """Describe the step for plans and reports."""
        who = ", ".join(settings.principals)
        return Description(
            f"add ACLs on {settings.cluster} that deny WRITE on topic {PROBE_TOPIC}, which does not"
            f" exist, to {who}; watch for {settings.seconds:g} s whether they stay",
            f"{settings.cluster} lists the ACLs for that time; if some are deleted, a fence by ACL"
            " would not hold",
            "remove exactly the ACLs that were added",
        )

    def check(self, settings: ProbeSettings, facts: Facts, reader: LinkReader) -> ProbeIntent:
        """Check that the ACLs would deny nothing that applications use.

        Raises:
            Refused: the cluster has no authorizer, its ACLs cannot be listed, or the topic exists.
            Unreachable: the cluster did not answer.
        """
        cluster = settings.cluster
        enforced_acls(cluster, reader)
        if PROBE_TOPIC in reader.cluster_reader(cluster).topic_names():
            raise Refused(
                f"topic {PROBE_TOPIC} exists on {cluster}: the probe would deny writes to it",
                "delete the topic; drctl does not create it",
            )
        self._begun = self._since = None
        return _intent(settings)

    def apply(self, intent: ProbeIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Add the ACLs."""
        return FENCE_PRODUCERS.apply(intent, writer)

    def verify(self, intent: ProbeIntent, reader: LinkReader) -> Readback[ProbeFacts]:
        """Read the ACLs again and again, until the time is over or some are missing."""
        cluster = intent.cluster
        present = reader.acls(cluster).acls()
        if isinstance(present, Unavailable):
            message = f"the ACLs of {cluster} cannot be listed: {present.reason}"
            return Readback(State.UNKNOWN, message)
        wanted = {*intent.rules, *(sign(rule, intent.link) for rule in intent.rules)}
        missing = wanted - {*present.rules}
        now, count = self._clock(), plural(len(wanted), "ACL")
        self._begun = now if self._begun is None else self._begun
        if self._since is None and missing:
            message = f"not on {cluster}: {len(missing)} of {count}"
            if now - self._begun < VISIBLE_S:
                return Readback(State.WAITING, message)
            why = f"{message} after {VISIBLE_S:g} s: drctl's user needs ALTER on the cluster"
            return Readback(State.FAILED, why)
        self._since = now if self._since is None else self._since
        watched = round(now - self._since, 1)
        principals = tuple(dict.fromkeys(rule.principal for rule in intent.rules))
        facts = ProbeFacts(principals, len(wanted), len(missing), watched)
        if missing:
            message = f"somebody deleted {len(missing)} of {count} within {watched:g} s"
            return Readback(State.DONE, f"{message}: a fence by ACL would not hold", facts)
        if watched >= intent.seconds:
            return Readback(State.DONE, f"{count} stayed for {watched:g} s", facts)
        return Readback(State.WAITING, f"on {cluster} for {watched:.0f} s: {count}")

    def undo(self, intent: ProbeIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Remove the ACLs."""
        return FENCE_PRODUCERS.undo(intent, writer)

    def verify_undo(self, intent: ProbeIntent, reader: LinkReader) -> Readback[ProbeFacts]:
        """Verify that no broker has the ACLs any more."""
        return _removed(intent, reader)


class RemoveProbeAcls(Permanent[ProbeSettings, ProbeIntent, None]):
    """Removes the ACLs of the probe; a rollback has nothing to restore."""

    name = "remove-probe-acls"
    traits = Trait.CHANGES

    def describe(self, settings: ProbeSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"remove the probe's ACLs from {settings.cluster}",
            "no broker has them",
            "none: nothing depends on them",
        )

    def check(self, settings: ProbeSettings, facts: Facts, reader: LinkReader) -> ProbeIntent:
        """Name the ACLs that the probe has added."""
        return _intent(settings)

    def apply(self, intent: ProbeIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Remove the ACLs."""
        return FENCE_PRODUCERS.undo(intent, writer)

    def verify(self, intent: ProbeIntent, reader: LinkReader) -> Readback[None]:
        """Verify that no broker has the ACLs any more."""
        return _removed(intent, reader)

    def verify_undo(self, intent: ProbeIntent, reader: LinkReader) -> Readback[None]:
        """Report that there is nothing to restore."""
        return Readback(State.DONE, "the probe's ACLs are not needed any more")


def _removed(intent: ProbeIntent, reader: LinkReader) -> Readback[F]:
    seen = FENCE_PRODUCERS.verify_undo(intent, reader)
    return Readback(seen.state, seen.message, items=seen.items)
