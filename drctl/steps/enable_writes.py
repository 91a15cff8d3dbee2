"""Enables writes on the target: removes denying ACLs, and verifies with a probe record."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.engine.kind import Description, Facts, Readback, State, StepKind, Trait, failed_items
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.source_fence import ALIVE, CHANGED_AFTER_FENCE
from drctl.model.errors import Refused, Unreachable
from drctl.model.fencing import Owner, may_be_of_a_fence, rules_of_other_links, signed
from drctl.model.health import AuthenticationFailed
from drctl.model.repairs import GROUP, TOPIC, Acl
from drctl.model.text import kafka_tool, plural
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.fences import fenced_ends
from drctl.steps.records import FindMissing

SHARED = "fence-of-another-link"
"""Blocks the removal of ACLs that the fence of another link needs."""

PROBE_TOPIC = "__drctl_canary"

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EnableSettings:
    """Settings from the plan.

    Attributes:
        cluster: the cluster on which writes are enabled.
        principals: principals that a fence may have denied.
        source: the source of the plan, which must not have changed.
        must_be_silent: whether the source is lost, and must still be unreachable.
        given_up: whether the plan abandons the source even if it responds.
        overrides: overridden prechecks, each with its reason.
    """

    cluster: str
    principals: tuple[str, ...]
    link: str = ""
    source: str = ""
    must_be_silent: bool = False
    given_up: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnableIntent:
    """The ACLs to remove, and the probe record.

    Attributes:
        lifted: ACLs that deny writes to applications.
        acls_unavailable: why ACLs cannot be listed; empty if they can.
        text: the content of the probe record.
    """

    cluster: str
    topics: tuple[str, ...]
    lifted: tuple[Acl, ...]
    acls_unavailable: str
    text: str


@dataclass(frozen=True, slots=True)
class EnableFacts:
    """How many ACLs were removed."""

    lifted: int


class EnableWrites(StepKind[EnableSettings, EnableIntent, EnableFacts]):
    """Enables writes; from here on the target may hold records that the source does not have."""

    name = "enable-writes"
    traits = Trait.CHANGES | Trait.ENABLES_WRITES

    def describe(self, settings: EnableSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"enable writes on {settings.cluster}",
            f"a record written to {PROBE_TOPIC} reads back",
            "restore the ACLs that denied writes",
        )

    def check(self, settings: EnableSettings, facts: Facts, reader: LinkReader) -> EnableIntent:
        """Check that the source has not changed, and find the ACLs that deny writes.

        Raises:
            Refused: the source accepted records or is back, or the fence of another link denies
                the same principals.
            Unreachable: the target did not respond.
        """
        recheck_source(settings, facts, reader)
        cluster = settings.cluster
        topics = sorted({reader.target_topic(topic) for topic in reader.topics()})
        found = reader.acls(cluster).acls()
        unseen = found.reason if isinstance(found, Unavailable) else ""
        rules = () if isinstance(found, Unavailable) else found.rules
        denying = [
            rule
            for rule in rules
            if rule.principal in settings.principals and may_be_of_a_fence(rule)
        ]
        # A group that was fenced may have expired since: then only the marker ACL shows the fence.
        marked = {r for r in signed(denying, rules, settings.link) if r.resource == GROUP}
        others = any(rule.resource == GROUP and rule not in marked for rule in denying)
        names = {
            TOPIC: topics,
            GROUP: reader.link_groups(cluster, incomplete=True) if others else (),
        }
        lifted = tuple(r for r in denying if r in marked or r.name in names[r.resource])
        _refuse_if_needed(cluster, lifted, rules_of_other_links(rules, settings.link))
        return EnableIntent(cluster, tuple(topics), lifted, unseen, uuid.uuid4().hex)

    def apply(self, intent: EnableIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Remove the ACLs, then write the probe record."""
        answers = writer.acls(intent.cluster).restore(intent.lifted) if intent.lifted else {}
        writer.probe_record(intent.cluster).write_probe(PROBE_TOPIC, intent.text)
        return failed_items(answers, _name)

    def verify(self, intent: EnableIntent, reader: LinkReader) -> Readback[EnableFacts]:
        """Verify that every broker dropped the ACLs, and that the probe record reads back."""
        cluster = intent.cluster
        if intent.lifted:
            lifted = reader.acls(cluster).lifted(intent.lifted, intent.topics)
            if not lifted.proven:
                return Readback(State.WAITING, "; ".join(lifted.unproven), items=lifted.unproven)
        if not reader.probe_readable(cluster, PROBE_TOPIC, intent.text):
            return Readback(State.WAITING, f"the probe record is not readable on {cluster} yet")
        message = f"a probe record was written to {cluster} and read back"
        outstanding = ""
        if intent.acls_unavailable:
            # drctl writes the probe record itself: it proves nothing about applications.
            outstanding = (
                f"check whether ACLs on {cluster} deny applications: {intent.acls_unavailable}"
            )
        return Readback(
            State.DONE, message, EnableFacts(len(intent.lifted)), outstanding=outstanding
        )

    def undo(self, intent: EnableIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the ACLs."""
        if not intent.lifted:
            return ()
        return failed_items(writer.acls(intent.cluster).deny(intent.lifted), _name)

    def verify_undo(self, intent: EnableIntent, reader: LinkReader) -> Readback[EnableFacts]:
        """Verify that every broker has the ACLs again."""
        if not intent.lifted:
            return Readback(State.DONE, "no ACL had been removed")
        enforcement = reader.acls(intent.cluster).enforcement(intent.lifted, intent.topics)
        state = State.DONE if enforcement.proven else State.WAITING
        return Readback(
            state,
            "; ".join(enforcement.unproven) or "the ACLs deny writes again",
            items=enforcement.unproven,
        )


def recheck_source(settings: EnableSettings, facts: Facts, reader: LinkReader) -> None:
    """Check that the source has not changed since the previous steps.

    A fence covers only the topics that existed when it was set, and its ACLs may have been removed
    since. An unplanned failover assumes a dead source, which may have come back.

    Raises:
        Refused: it has changed, or it is back.
        Unreachable: the target did not respond.
    """
    source, overrides = settings.source, settings.overrides
    if settings.must_be_silent:
        if ALIVE not in overrides:
            _refuse_if_alive(source, reader)
    elif source and not settings.given_up and CHANGED_AFTER_FENCE not in overrides:
        search = facts.of(FindMissing())
        second_copies = search.duplicated if search else 0
        _refuse_if_moved(source, fenced_ends(facts), reader, second_copies)


def _refuse_if_alive(source: str, reader: LinkReader) -> None:
    try:
        reader.live_cluster_id(source)
    except AuthenticationFailed:
        what = "it responds but rejects drctl's credentials"
    except Unreachable:
        return
    else:
        what = "it responds again"
    raise Refused(
        f"{ALIVE}: cluster {source}: {what}",
        f"use --mode planned, which loses nothing; to treat {source} as lost anyway, pass"
        f" --override {ALIVE}=REASON",
    )


def _refuse_if_moved(
    source: str, fenced: Mapping[str, int], reader: LinkReader, second_copies: int
) -> None:
    if not fenced:
        return
    try:
        topics, cluster_reader = reader.topics(), reader.cluster_reader(source)
        there = cluster_reader.overview().partitions
        places = [TopicPartition(t, number) for t in topics for number in there.get(t, ())]
        offsets = cluster_reader.offsets(places)
    except Unreachable:
        # A source that has died since it was fenced accepts no records.
        return
    named = {place.rpartition("-")[0] for place in fenced}
    new = [topic for topic in topics if topic not in named]
    if new:
        raise Refused(
            f"{CHANGED_AFTER_FENCE}: {plural(len(new), 'topic was', 'topics were')}"
            f" created on {source} after the fence,"
            f" which does not cover them: {', '.join(new[:_SHOWN])}",
            "run the command again: its new fence covers these topics. If clients keep creating"
            f" topics, deny them CREATE on {source} first",
        )
    # A partition without a leader accepts no records.
    grown = [
        str(place)
        for place, found in offsets.items()
        if not isinstance(found, Unavailable) and found.end > fenced.get(str(place), 0)
    ]
    if grown:
        _refuse_if_missing(source, grown, reader, second_copies)


def _refuse_if_missing(
    source: str, grown: list[str], reader: LinkReader, second_copies: int
) -> None:
    """Refuse if records are missing; higher end offsets may be due to transaction markers only."""
    # A tail may hold only some of the second copies: only a full comparison counts them all.
    missing = reader.compared("full") if second_copies else reader.missing()
    records = missing.but_for(second_copies)
    if not records and not missing.not_compared:
        return
    what = (
        missing.not_compared[0]
        if missing.not_compared
        else f"{plural(records, 'record is', 'records are')} not replicated"
    )
    raise Refused(
        f"{CHANGED_AFTER_FENCE}: {plural(len(grown), 'partition')} of {source} grew after"
        " the fence,"
        f" {', '.join(grown[:_SHOWN])}: {what}",
        "find the writer (a principal not in fence.principals, a super user, or ACLs that were"
        f" removed: {kafka_tool('kafka-acls.sh', source)} --list), stop it, and run the"
        " command again",
    )


def _refuse_if_needed(cluster: str, lifted: tuple[Acl, ...], others: Mapping[Acl, Owner]) -> None:
    """Refuse if other links need these ACLs: keeping them would block clients of this link."""
    needed = {rule: others[rule] for rule in lifted if rule in others}
    if needed:
        rule, (link, signature) = next(iter(needed.items()))
        raise Refused(
            f"{SHARED}: the fence of link {link} needs ACLs that deny applications access to"
            f" {cluster} ({len(needed):,}), such as {rule.operation} on {rule.on} to"
            f" {rule.principal}",
            f"fail back link {link} first; if its fence is no longer needed,"
            f" remove the ACLs on {cluster} whose principal begins with {signature}",
        )


def _name(rule: Acl) -> str:
    return rule.on
