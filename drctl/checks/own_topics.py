"""The topics that drctl keeps: whether nobody else may write to them.

What stands there is read again, and acted on: by `drctl resume`, by a failover whose source is
lost, by a comparison that leaves out what an earlier one has read.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from drctl.checks.access import Access, RuleBook, access
from drctl.checks.check import Family, NotObserved, Verdict, check, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.wording import listed, several
from drctl.config.link import Link
from drctl.model.acls import Acl, Acls
from drctl.model.fencing import resting
from drctl.model.finding import Status
from drctl.model.pasting import option, quote, variable
from drctl.model.survey import Settings
from drctl.model.topology import Unavailable
from drctl.wire.journal_records import TOPIC as JOURNAL

PREFIX = "__drctl_"
ANCHORS, CANARY = "__drctl_anchors", "__drctl_canary"
_RECONCILE, _QUARANTINE = "__drctl_reconcile", "__drctl_quarantine."
ON_SOURCE = (_RECONCILE, CANARY, _QUARANTINE)
"""A failback writes these there."""
ON_TARGET = (JOURNAL, ANCHORS, *ON_SOURCE)

_CHANGING = {
    "WRITE": "Write",
    "DELETE": "Delete",
    "ALTER": "Alter",
    "ALTER_CONFIGS": "AlterConfigs",
}
"""Operations that change what a topic holds, as ACLs and as kafka-acls name them: DELETE takes
records away, too, and ALTER_CONFIGS has them expire."""

Names = Sequence[str]
EVERYBODY = "User:*"
_IF_NO_RULE = "allow.everyone.if.no.acl.found"


@check(
    "own-topics",
    Family.JOURNAL,
    "nobody but drctl's own user may write to, change or delete the topics that drctl keeps",
    Status.WARN,
)
def writers(observed: Observed) -> Iterator[Verdict]:
    """Whether somebody else could tell drctl what to do, or what it has seen."""
    link = observed.link
    ends = (
        (link.target, observed.target_acls, observed.survey.target, ON_TARGET),
        (link.source, observed.source_acls, observed.survey.source, ON_SOURCE),
    )
    for name, acls, survey, kept in ends:
        cluster = _Cluster(
            link,
            name,
            _topics(observed, name, kept),
            observed.survey.principals.get(name, ""),
            _if_no_rule(survey.settings),
        )
        try:
            yield _judged(cluster, acls)
        except NotObserved as end:
            yield end.verdict


class _Cluster(NamedTuple):
    """One end of the link.

    Attributes:
        topics: that drctl keeps there, or will; the name of quarantines ends with a dot.
        own: drctl's principal; empty where it does not log in with a user name.
        open_without_rules: what brokers say of topics that no rule names; None where they do not.
    """

    link: Link
    name: str
    topics: tuple[str, ...]
    own: str
    open_without_rules: bool | None

    @property
    def subject(self) -> str:
        return f"topics of drctl on cluster {self.name}"

    def cost(self, topics: Collection[str]) -> str:
        """What somebody could do who writes to these."""
        told = []
        if JOURNAL in topics and self.link.journal_key:
            told.append(
                "runs can be ended, hidden or kept from beginning (made-up ones are refused, for"
                " journal.key signs them)"
            )
        elif JOURNAL in topics:
            told.append(
                "`drctl resume` carries out a made-up run, in any order, as far as drctl.yaml"
                " allows: without journal.key nothing tells it from a real one"
            )
        if ANCHORS in topics:
            told.append("made-up anchors let groups skip records when the source is lost")
        if any(topic.startswith((_RECONCILE, _QUARANTINE)) for topic in topics):
            told.append("what was copied or set aside after a failover can be made up or lost")
        if CANARY in topics:
            told.append("a cluster can seem to take writes that does not")
        if any(not topic.startswith(ON_TARGET) for topic in topics):
            told.append("a made-up ledger hides missing records from `drctl gap`")
        return "; ".join(told)

    def acl(
        self, change: str, principals: Collection[str], operations: Collection[str], topics: Names
    ) -> str:
        """The commands that add a rule for these principals and topics."""
        who = " ".join(f"{option(change, principal)}" for principal in principals)
        what = " ".join(f"--operation {quote(operation)}" for operation in operations)
        head = (
            f'kafka-acls.sh --bootstrap-server "{variable(self.name)}"'
            f" --command-config admin.properties --add {who} {what}"
        )
        apart = dict.fromkeys(topic for topic in topics if not topic.startswith(PREFIX))
        lines = [f"{head} {option('--topic', topic)}" for topic in apart]
        if any(topic.startswith(PREFIX) for topic in topics):
            lines.append(f"{head} --topic {quote(PREFIX)} --resource-pattern-type prefixed")
        return "; ".join(lines)


def _judged(cluster: _Cluster, acls: Acls | Unavailable) -> Verdict:
    grant = f"grant drctl's user DESCRIBE on cluster {cluster.name}, or look at kafka-acls --list"
    known = seen(acls, cluster.subject, "who may write to them is", grant)
    if not known.enforced:
        cure = "give it an authorizer; until then let nobody reach it who may not run drctl"
        if not cluster.link.journal_key:
            cure += ", and set journal.key"
        reason = "it has no authorizer: everybody may write to them, change and delete them"
        return warn(
            cluster.subject, reason, "ACLs are not enforced", cluster.cost(cluster.topics), cure
        )
    # A fence is lifted again: what it denies meanwhile counts for nothing here.
    fences = resting(known.rules, "")
    rules = [rule for rule in known.rules if rule not in fences]
    may = {
        who: each
        for who in sorted({rule.principal for rule in rules if rule.permission == "ALLOW"})
        if (each := _allowed(rules, who, cluster.topics))
    }
    others = [who for who in may if who != cluster.own]
    if others and (cluster.own or len(others) > 1 or EVERYBODY in others):
        return _may_be_written(cluster, {who: may[who] for who in others})
    book = RuleBook(rules)
    everyone = {rule.principal for rule in rules}
    open_ones = [t for t in cluster.topics if not any(book.concerning(who, t) for who in everyone)]
    if open_ones and cluster.open_without_rules is not False:
        return _without_rules(cluster, open_ones)
    if others:
        reason = f"{others[0]} may write to them: whether that is drctl's own user is not known"
        cure = f"see that nobody but drctl logs in to {cluster.name} as {others[0]}"
        raise NotObserved(cluster.subject, reason, cure, _told(may[others[0]]))
    told = f"{len(known.rules):,} rules; who is in super.users brokers do not tell"
    return ok(cluster.subject, "no rule lets anybody else write to them", told)


def _may_be_written(cluster: _Cluster, may: Mapping[str, Mapping[str, Names]]) -> Verdict:
    names = ["everybody" if who == EVERYBODY else who for who in may]
    reason = f"{listed(names)} may write to them, change or delete them"
    if not cluster.own:
        reason += "; which of these is drctl's own user is not known"
    evidence = several(f"{who}: {_told(what)}" for who, what in may.items())
    denied = [who for who in may if who != EVERYBODY]
    touched = [name for what in may.values() for names in what.values() for name in names]
    topics = [name for who in denied for names in may[who].values() for name in names]
    cures = []
    if denied and cluster.own:
        operations = tuple(_CHANGING.values())
        cures.append(cluster.acl("--deny-principal", denied, operations, topics))
    elif denied:
        cures.append("deny it to all of them but drctl's own, with kafka-acls --deny-principal")
    if EVERYBODY in may:
        # Denied to everybody, they would be denied to drctl, too.
        cures.append(
            "remove the rule that allows it to User:*, once each application has rules of its own"
        )
    return warn(cluster.subject, reason, evidence, cluster.cost(touched), "; ".join(cures))


def _without_rules(cluster: _Cluster, topics: Names) -> Verdict:
    told = f"no rule names {listed([*map(_shown, topics)])}"
    if cluster.own:
        cure = cluster.acl("--allow-principal", [cluster.own], ["All"], topics)
    else:
        cure = f"add a rule for drctl's own user, for topics that begin with {PREFIX}"
    if cluster.open_without_rules:
        reason = f"everybody may write to topics that no rule names ({_IF_NO_RULE}=true)"
        return warn(cluster.subject, reason, told, cluster.cost(topics), cure)
    reason = f"{told}: whether everybody may write there ({_IF_NO_RULE}), brokers do not tell"
    raise NotObserved(cluster.subject, reason, cure)


def _allowed(rules: Collection[Acl], principal: str, topics: Names) -> Mapping[str, Names]:
    """The topics that a principal may change, by what it may do, in words."""
    found: dict[str, list[str]] = {}
    for topic in topics:
        grades = {each: access(rules, principal, each, topic) for each in _CHANGING}
        may = [each for each, grade in grades.items() if grade is not Access.NO]
        if may:
            hosts = "" if Access.YES in grades.values() else " from some hosts"
            found.setdefault(f"{', '.join(may)}{hosts}", []).append(topic)
    return found


def _told(allowed: Mapping[str, Names]) -> str:
    return several(f"{may} on {listed([*map(_shown, names)])}" for may, names in allowed.items())


def _shown(topic: str) -> str:
    return f"{topic}*" if topic == _QUARANTINE else topic


def _topics(observed: Observed, cluster: str, kept: Collection[str]) -> tuple[str, ...]:
    end = observed.survey.target if cluster == observed.link.target else observed.survey.source
    there = () if isinstance(end.layout, Unavailable) else {p.topic for p in end.layout.partitions}
    quarantines = sorted(name for name in there if name.startswith(_QUARANTINE))
    ledger = observed.survey.ledger
    kept_in = (ledger.topic,) if ledger is not None and ledger.cluster == cluster else ()
    return (*kept, *kept_in, *quarantines)


def _if_no_rule(settings: Settings | Unavailable) -> bool | None:
    if isinstance(settings, Unavailable):
        return None
    told = [
        None if isinstance(each, Unavailable) else each.get(_IF_NO_RULE)
        for each in settings.values()
    ]
    if "true" in told:
        return True
    return False if told and all(each == "false" for each in told) else None
