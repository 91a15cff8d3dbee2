"""Enables writes on the target: removes what denies them, and proves it with a probe record."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from drctl.engine.kind import Description, Facts, Readback, State, StepKind, Trait, failed_items
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.source_fence import ALIVE, CHANGED_AFTER_FENCE
from drctl.model.errors import Refused, Unreachable
from drctl.model.fencing import DENY, Denied, Owner, rules_of_other_links
from drctl.model.health import AuthenticationFailed
from drctl.model.repairs import Acl
from drctl.model.topology import TopicPartition, Unavailable
from drctl.steps.fences import fenced_ends

SHARED = "fence-of-another-link"
"""Blocks removing rules that another link needs."""

PROBE_TOPIC = "__drctl_canary"

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EnableSettings:
    """What a plan says, and what was overridden.

    Attributes:
        cluster: whose writes are enabled.
        principals: that were kept away.
        source: the other cluster; journals of drctl before 0.6 do not name it.
        must_be_silent: whether the source is lost.
        given_up: whether it is left as it is, although it answers.
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
    """What is removed and written.

    Attributes:
        lifted: rules that deny applications their writes.
        unseen: why rules cannot be seen; empty where they can.
        text: of the probe record.
    """

    cluster: str
    topics: tuple[str, ...]
    lifted: tuple[Acl, ...]
    unseen: str
    text: str


@dataclass(frozen=True, slots=True)
class EnableFacts:
    """How many rules were removed."""

    lifted: int


class EnableWrites(StepKind[EnableSettings, EnableIntent, EnableFacts]):
    """From here on the target may hold writes that the source does not have."""

    name = "enable-writes"
    traits = Trait.CHANGES | Trait.ENABLES_WRITES

    def describe(self, settings: EnableSettings) -> Description:
        """The step in words."""
        return Description(
            f"enable writes on {settings.cluster}",
            f"a record written to {PROBE_TOPIC} reads back",
            "restore the ACL rules that denied writes",
        )

    def check(self, settings: EnableSettings, facts: Facts, reader: LinkReader) -> EnableIntent:
        """That the source is as it was left; which rules keep principals from writing here.

        Raises:
            Refused: the source took records, or is back; or another link's fence keeps the same
                principals from here.
            Unreachable: the target did not answer.
        """
        look_at_source(settings, facts, reader)
        cluster = settings.cluster
        topics = sorted({reader.target_topic(topic) for topic in reader.topics()})
        found = reader.acls(cluster).acls()
        unseen = found.reason if isinstance(found, Unavailable) else ""
        rules = () if isinstance(found, Unavailable) else found.rules
        principals = set(settings.principals)
        lifted = tuple(rule for rule in rules if _denies(rule, principals, topics))
        _refuse_if_needed(cluster, lifted, rules_of_other_links(rules, settings.link))
        return EnableIntent(cluster, tuple(topics), lifted, unseen, uuid.uuid4().hex)

    def apply(self, intent: EnableIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Remove the rules, then write the probe record."""
        answers = writer.acls(intent.cluster).restore(intent.lifted) if intent.lifted else {}
        writer.probe_record(intent.cluster).write_probe(PROBE_TOPIC, intent.text)
        return failed_items(answers, _name)

    def verify(self, intent: EnableIntent, reader: LinkReader) -> Readback[EnableFacts]:
        """Whether the rules are gone everywhere, and the probe record can be read."""
        cluster = intent.cluster
        if intent.lifted:
            lifted = reader.acls(cluster).lifted(intent.lifted, intent.topics)
            if not lifted.proven:
                return Readback(State.WAITING, "; ".join(lifted.unproven), items=lifted.unproven)
        if not reader.probe_readable(cluster, PROBE_TOPIC, intent.text):
            return Readback(State.WAITING, f"the probe record is not readable on {cluster} yet")
        words = f"a probe record was written to {cluster} and read back"
        outstanding = ""
        if intent.unseen:
            # The probe record is drctl's own: it says nothing of what applications may do.
            outstanding = f"check whether ACL rules on {cluster} deny applications: {intent.unseen}"
        return Readback(State.DONE, words, EnableFacts(len(intent.lifted)), outstanding=outstanding)

    def undo(self, intent: EnableIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Deny again."""
        if not intent.lifted:
            return ()
        return failed_items(writer.acls(intent.cluster).deny(intent.lifted), _name)

    def verify_undo(self, intent: EnableIntent, reader: LinkReader) -> Readback[EnableFacts]:
        """Whether it is denied again everywhere."""
        if not intent.lifted:
            return Readback(State.DONE, "no rule had been removed")
        enforcement = reader.acls(intent.cluster).enforcement(intent.lifted, intent.topics)
        state = State.DONE if enforcement.proven else State.WAITING
        return Readback(
            state, "; ".join(enforcement.unproven) or "denied again", items=enforcement.unproven
        )


def look_at_source(settings: EnableSettings, facts: Facts, reader: LinkReader) -> None:
    """Check that the source has not changed since the steps before looked at it.

    A fence names the topics that were there, and somebody may have removed its rules since. An
    unplanned failover rests on a source that is dead, and minutes may have passed since that was
    seen.

    Raises:
        Refused: it has, or it is back.
        Unreachable: the target did not answer.
    """
    source, passed = settings.source, settings.overrides
    if settings.must_be_silent:
        if ALIVE not in passed:
            _refuse_if_alive(source, reader)
    elif source and not settings.given_up and CHANGED_AFTER_FENCE not in passed:
        _refuse_if_moved(source, fenced_ends(facts), reader)


def _refuse_if_alive(source: str, reader: LinkReader) -> None:
    try:
        reader.live_cluster_id(source)
    except AuthenticationFailed:
        told = "it responds but rejects drctl's credentials"
    except Unreachable:
        return
    else:
        told = "it responds again"
    raise Refused(
        f"{ALIVE}: cluster {source}: {told}",
        "use --mode planned, which loses nothing; to abandon the source anyway, pass"
        f" --override {ALIVE}=REASON",
    )


def _refuse_if_moved(source: str, fenced: Mapping[str, int], reader: LinkReader) -> None:
    if not fenced:
        return
    try:
        topics, site = reader.topics(), reader.cluster_reader(source)
        there = site.overview().partitions
        places = [TopicPartition(t, number) for t in topics for number in there.get(t, ())]
        offsets = site.offsets(places)
    except Unreachable:
        # One that has died since it was fenced takes no record any more.
        return
    named = {place.rpartition("-")[0] for place in fenced}
    new = [topic for topic in topics if topic not in named]
    if new:
        raise Refused(
            f"{CHANGED_AFTER_FENCE}: {len(new)} topics were created on {source} after the fence,"
            f" which does not cover them: {', '.join(new[:_SHOWN])}",
            "start again: a new fence covers them. If clients keep creating topics, deny them"
            f" CREATE on {source} first",
        )
    # One without a leader takes no record.
    grown = [
        str(place)
        for place, found in offsets.items()
        if not isinstance(found, Unavailable) and found.end > fenced.get(str(place), 0)
    ]
    if grown:
        _refuse_if_missing(source, grown, reader)


def _refuse_if_missing(source: str, grown: list[str], reader: LinkReader) -> None:
    """The end of a transaction moves an end, too, and is no record."""
    missing = reader.missing()
    if not missing.records and not missing.not_compared:
        return
    told = missing.not_compared[0] if missing.not_compared else f"{missing.records:,} are missing"
    raise Refused(
        f"{CHANGED_AFTER_FENCE}: {len(grown)} partitions of {source} grew after the fence,"
        f" {', '.join(grown[:_SHOWN])}: {told}",
        f"find the writer (a principal not in fence.principals, a super user, or rules"
        f" that were removed: kafka-acls.sh --list on {source}), stop it, and start again",
    )


def _refuse_if_needed(cluster: str, lifted: tuple[Acl, ...], others: Mapping[Acl, Owner]) -> None:
    """What stays denied would keep out the clients that are sent here."""
    needed = {rule: others[rule] for rule in lifted if rule in others}
    if needed:
        rule, (link, signature) = next(iter(needed.items()))
        raise Refused(
            f"{SHARED}: {len(needed)} rules that keep applications from {cluster} are needed by"
            f" the fence of link {link}, such as {rule.operation} on {rule.name} to"
            f" {rule.principal}",
            f"fail back link {link} first; if its fence is no longer needed,"
            f" remove the rules of principal {signature}... on {cluster}",
        )


def _denies(rule: Acl, principals: set[str], topics: list[str]) -> bool:
    """Whether it is a rule of the form in which a fence is set."""
    return (
        rule.permission == DENY
        and rule.operation in {each.value for each in Denied}
        and rule.principal in principals
        and rule.name in topics
    )


def _name(rule: Acl) -> str:
    return rule.name
