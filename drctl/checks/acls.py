"""What ACLs allow, evaluated as Kafka's authorizer does."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from drctl.checks.check import PLANNED, Family, Prechecks, check, listed, several
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, ok, require, require_queried, warn
from drctl.config.link import Link
from drctl.formats.journal_records import TOPIC as JOURNAL
from drctl.model.active_cluster import FenceProbe
from drctl.model.fencing import rules_of_other_links
from drctl.model.finding import Status
from drctl.model.health import ALTER
from drctl.model.loss import Mode
from drctl.model.moments import utc
from drctl.model.repairs import CLIENT_OPERATIONS, TOPIC, Acl, Acls
from drctl.model.survey import Settings
from drctl.model.text import kafka_tool, on_each, option, plural, quote
from drctl.model.topology import Unavailable

# Each of these operations implies the key.
_IMPLIED = {"DESCRIBE": frozenset({"READ", "WRITE", "DELETE", "ALTER"})}
_ANY, _EVERYBODY = "*", "User:*"


class Access(StrEnum):
    """Whether a principal may do something, and from which hosts."""

    YES = "allowed"
    SOME_HOSTS = "allowed from some hosts"
    NO = "not allowed"


class RuleBook:
    """Rules indexed by principal and resource, for many rules and many topics."""

    def __init__(self, rules: Iterable[Acl]) -> None:
        self._exact: dict[tuple[str, str, str], list[Acl]] = defaultdict(list)
        self._prefixed: dict[tuple[str, str], list[Acl]] = defaultdict(list)
        for rule in rules:
            if rule.pattern == "PREFIXED":
                self._prefixed[rule.principal, rule.resource].append(rule)
            else:
                self._exact[rule.principal, rule.resource, rule.name].append(rule)

    def concerning(self, principal: str, name: str, resource: str = TOPIC) -> list[Acl]:
        """The rules that apply to a principal and a topic, or another resource."""
        found: list[Acl] = []
        for who in dict.fromkeys((principal, _EVERYBODY)):
            for each in dict.fromkeys((name, _ANY)):
                found += self._exact.get((who, resource, each), ())
            prefixed = self._prefixed.get((who, resource), ())
            found += (rule for rule in prefixed if name.startswith(rule.name))
        return found


def access(
    rules: Iterable[Acl], principal: str, operation: str, name: str, resource: str = TOPIC
) -> Access:
    """Whether rules allow a principal an operation on a topic; DENY always wins."""
    mine = [rule for rule in rules if _concerns(rule, principal, name, resource)]
    denying = [r for r in mine if r.permission == "DENY" and r.operation in (operation, "ALL")]
    enough = {operation, "ALL"} | _IMPLIED.get(operation, frozenset())
    allowing = [r for r in mine if r.permission == "ALLOW" and r.operation in enough]
    if not allowing or any(rule.host == _ANY for rule in denying):
        return Access.NO
    everywhere = not denying and any(rule.host == _ANY for rule in allowing)
    return Access.YES if everywhere else Access.SOME_HOSTS


def _concerns(rule: Acl, principal: str, name: str, resource: str) -> bool:
    return rule.principal in (principal, _EVERYBODY) and is_about(rule, name, resource)


def is_about(rule: Acl, name: str, resource: str = TOPIC) -> bool:
    """Whether a rule applies to a topic, or to another resource."""
    if rule.resource != resource:
        return False
    if rule.pattern == "PREFIXED":
        return name.startswith(rule.name)
    return rule.name in (name, _ANY)


_COMMAND = "fence with your own command: `fence: {method: command, command: [...]}`"


@check("fence-not-possible", Family.FENCE, Status.WARN, Status.FAIL, prechecks=Prechecks())
def possible(observed: Observed) -> Verdict:
    """The source enforces ACLs, drctl's user may ALTER them, and nothing deletes them."""
    subject = f"fence of cluster {observed.link.source}"
    method = observed.link.settings.fence.method
    if method == "none":
        reason, remedy = (
            "the link has no fence",
            "configure `fence: {method: acl, principals: [...]}`",
        )
        return _not_possible(subject, reason, "fence.method=none", remedy, observed)
    if method == "command":
        reason = "whether your fence command works is only known once it runs"
        raise NotObserved(subject, reason, "test the command: drctl drill")
    return _by_acl(subject, observed)


def _by_acl(subject: str, observed: Observed) -> Verdict:
    grant = "grant drctl's user DESCRIBE and ALTER on the cluster"
    acls = require_queried(observed.source_acls, subject, "its ACLs are", grant)
    if isinstance(acls, Unavailable):
        reason = "the source's ACLs cannot be read"
        remedy = f"{grant}, or {_COMMAND}"
        if observed.mode is Mode.UNPLANNED:
            remedy = (
                "if the source is lost, nothing to do now: drctl failback fences it later;"
                f" otherwise {remedy}"
            )
        return _not_possible(subject, reason, acls.reason, remedy, observed)
    if not acls.enforced:
        reason = "the source has no authorizer"
        return _not_possible(subject, reason, "ACLs are not enforced", _COMMAND, observed)
    known = observed.active_cluster
    probe = None if isinstance(known, Unavailable) else known.probe
    if probe is not None and probe.deleted:
        reason = "something deletes the ACLs that drctl adds, as Strimzi's User Operator does"
        evidence = (
            f"run {probe.run} ({utc(probe.at_ms)}): {probe.deleted:,} of"
            f" {plural(probe.acls, 'ACL')} deleted within {probe.seconds:g} s"
        )
        remedy = (
            f"{_COMMAND} ({_PAGE}); or make sure that nothing deletes them, and probe again:"
            f" {_probing(observed)}"
        )
        return _not_possible(subject, reason, evidence, remedy, observed)
    rights = require(observed.source_rights, subject, "the permissions of drctl's user are", grant)
    evidence = f"cluster permissions: {', '.join(sorted(rights)) or 'none'}"
    if ALTER not in rights:
        reason = "drctl's user may not change ACLs"
        return _not_possible(subject, reason, evidence, f"{grant}, or {_COMMAND}", observed)
    return ok(
        subject,
        "ACLs are enforced, and drctl's user may change them",
        f"{evidence}; {_probe_result(observed, probe)}",
    )


_PAGE = "docs/howto/strimzi.md"


def _probing(observed: Observed) -> str:
    return f"drctl doctor --link {quote(observed.link.name)} --fence-probe 150s --execute"


def _probe_result(observed: Observed, probe: FenceProbe | None) -> str:
    """Whether something deletes added ACLs, as far as a probe has shown."""
    if probe is None:
        return f"whether something deletes them again was not probed: {_probing(observed)}"
    found = f"run {probe.run} watched ACLs for {probe.seconds:g} s, and nothing deleted them"
    new = [p for p in observed.link.settings.fence.principals if p not in probe.principals]
    return f"{found}; not probed for {listed(new)}" if new else found


def _not_possible(
    subject: str, reason: str, evidence: str, remedy: str, observed: Observed
) -> Verdict:
    if observed.mode is Mode.UNPLANNED:
        impact = "if the source returns, its clients resume there: fencing it is still outstanding"
        return warn(subject, reason, evidence, impact, remedy)
    impact = "the source keeps accepting writes while the target accepts them, too"
    return fail(subject, reason, evidence, impact, remedy)


_ALLOW, _DENY = "ALLOW", "DENY"
FENCED = ("WRITE", "READ")
"""Operations that a fence denies; `enable-writes` removes such rules."""


class Refusal(NamedTuple):
    """An operation that a principal may do on the source, but not on the target."""

    principal: str
    operation: str
    copy: str


@check("acl-parity", Family.PARITY, Status.WARN, Status.FAIL, prechecks=Prechecks(needed=PLANNED))
def acls(observed: Observed) -> Verdict:
    """No application (`fence.principals`, else any) has fewer rights on the target."""
    link = observed.link
    subject = f"ACLs of cluster {link.target}"
    both = on_each("kafka-acls.sh", (link.source, link.target), "--list")
    remedy = f"compare the ACLs of both clusters: {both}"
    target = require(observed.target_acls, subject, "they are", remedy)
    if not target.enforced:
        return ok(subject, "it has no authorizer: everyone may do everything")
    source = require(observed.source_acls, subject, f"those of cluster {link.source} are", remedy)
    known = require(
        observed.source_topics, subject, f"the topics of cluster {link.source} are", remedy
    )
    names = link.topics_of(name for name, state in known.items() if state is not None)
    topics = {name: link.target_topic(name) for name in names}
    principals = judged_principals(observed, source, subject)
    refused = refusals(source, target, principals, topics)
    missing = missing_allows(source, target, principals, topics)
    if not refused and not missing:
        details = (
            f"{plural(len(topics), 'topic')}; {plural(len(source.rules), 'ACL')} on {link.source},"
            f" {len(target.rules):,} on {link.target}"
        )
        return ok(subject, "all permissions of the source exist on the target", details)
    denied = [
        *((e.principal, e.operation, e.copy) for e in refused),
        *((e.principal, e.operation, in_full(e)) for e in missing),
    ]
    who = listed(dict.fromkeys(principal for principal, _, _ in denied))
    details = several(
        f"{principal} may not {operation} {on}" for principal, operation, on in denied
    )
    reason = f"permissions of {who} that exist on the source are missing: {len(denied):,}"
    impact = "applications that need these permissions are denied access on the target"
    remedy = "add the missing ALLOW ACLs: drctl doctor --fix, or kafka-acls.sh --add"
    if any(operation == "WRITE" for _, operation, _ in denied):
        return fail(subject, reason, details, impact, remedy)
    return warn(subject, reason, details, impact, remedy)


def judged_principals(observed: Observed, source: Acls, subject: str) -> tuple[str, ...]:
    """The principals to fence; if none are configured, all that have ALLOW rules.

    Raises:
        NotObserved: none are configured, and the source has no authorizer.
    """
    if given := observed.link.settings.fence.principals:
        return given
    if not source.enforced:
        remedy = "list the applications in `fence.principals` of the link"
        raise NotObserved(subject, "the link has no `fence.principals`", remedy)
    rules = (rule for rule in source.rules if rule.resource == TOPIC)
    return tuple(sorted({rule.principal for rule in rules if rule.permission == _ALLOW}))


def refusals(
    source: Acls, target: Acls, principals: Iterable[str], topics: Mapping[str, str]
) -> list[Refusal]:
    """Operations that the source allows and the target does not."""
    found: list[Refusal] = []
    ours = RuleBook(rule for rule in source.rules if rule.permission == _ALLOW)
    theirs = RuleBook(target.rules)
    for principal in principals:
        for topic, copy in topics.items():
            allowed = ours.concerning(principal, topic)
            if source.enforced and not allowed:
                continue
            # Ignore an existing fence: it does not show the regular permissions.
            there = [r for r in theirs.concerning(principal, copy) if not of_a_fence(r, principal)]
            found += [
                Refusal(principal, operation, copy)
                for operation in FENCED
                if not source.enforced
                or access(allowed, principal, operation, topic) is not Access.NO
                if access(there, principal, operation, copy) is Access.NO
            ]
    return found


def missing_allows(
    source: Acls, target: Acls, principals: Iterable[str], topics: Iterable[str]
) -> list[Acl]:
    """ALLOW rules for groups, transactional ids and the cluster that are missing on the target.

    Args:
        topics: of the link, by their names on the source; principals that may use none are ignored.

    Returns:
        A separate rule for each principal and operation; these resources have the same names on
        both clusters. Nothing if the source enforces no rules.
    """
    if not source.enforced:
        return []
    ours = RuleBook(_allows(source, {TOPIC}))
    by_principal: dict[str, list[Acl]] = defaultdict(list)
    for rule in _allows(source, CLIENT_OPERATIONS):
        by_principal[rule.principal].append(rule)
    theirs, names = RuleBook(target.rules), tuple(topics)
    found: dict[Acl, None] = {}
    for principal in principals:
        if not any(ours.concerning(principal, name) for name in names):
            continue
        for rule in (*by_principal[principal], *by_principal[_EVERYBODY]):
            for operation in CLIENT_OPERATIONS[rule.resource]:
                wanted = rule._replace(principal=principal, operation=operation)
                if rule.operation in (operation, "ALL") and allowed(theirs, wanted) is Access.NO:
                    found[wanted] = None
    return list(found)


def _allows(acls: Acls, resources: Collection[str]) -> Iterator[Acl]:
    rules = (rule for rule in acls.rules if rule.permission == _ALLOW)
    return (rule for rule in rules if rule.resource in resources)


def allowed(book: RuleBook, wanted: Acl) -> Access:
    """Whether rules allow at least what a rule allows; an existing fence is ignored."""
    there = [
        rule
        for rule in book.concerning(wanted.principal, wanted.name, wanted.resource)
        if covers(rule, wanted) and not of_a_fence(rule, wanted.principal)
    ]
    return access(there, wanted.principal, wanted.operation, wanted.name, wanted.resource)


def covers(rule: Acl, wanted: Acl) -> bool:
    """Whether a rule applies to all names of another rule, given that it applies to one of them."""
    if wanted.pattern == "PREFIXED" or wanted.name == _ANY:
        return rule.name == _ANY or (rule.pattern == "PREFIXED" and wanted.name != _ANY)
    return True


def in_full(rule: Acl) -> str:
    """The resource of a rule, for messages."""
    return f"{rule.on}..." if rule.pattern == "PREFIXED" else rule.on


def of_a_fence(rule: Acl, principal: str) -> bool:
    """Whether a rule looks like a rule of a fence against a principal."""
    return (
        rule.permission == _DENY
        and rule.operation in FENCED
        and rule.principal == principal
        and rule.pattern == "LITERAL"
    )


PREFIX = "__drctl_"
TRACKED_OFFSETS, CANARY = "__drctl_anchors", "__drctl_canary"
_RECONCILE, _QUARANTINE = "__drctl_reconcile", "__drctl_quarantine."
ON_SOURCE = (_RECONCILE, CANARY, _QUARANTINE)
"""Topics that a failback writes on the source."""
ON_TARGET = (JOURNAL, TRACKED_OFFSETS, *ON_SOURCE)

_CHANGING = {
    "WRITE": "Write",
    "DELETE": "Delete",
    "ALTER": "Alter",
    "ALTER_CONFIGS": "AlterConfigs",
}
"""Operations that change the content of a topic, by ACL name and kafka-acls.sh name: DELETE removes
records, and ALTER_CONFIGS can make them expire."""

Names = Sequence[str]
EVERYBODY = "User:*"
_IF_NO_RULE = "allow.everyone.if.no.acl.found"


@check("own-topics", Family.JOURNAL, Status.WARN)
def writers(observed: Observed) -> Iterator[Verdict]:
    """Only drctl's own user may write to, change or delete drctl's topics."""
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
    """One cluster of the link.

    Attributes:
        topics: drctl's topics there, existing or future; the quarantine prefix ends with a dot.
        own: drctl's principal; empty if it does not log in with a user name.
        open_without_rules: allow.everyone.if.no.acl.found; None if brokers do not report it.
    """

    link: Link
    name: str
    topics: tuple[str, ...]
    own: str
    open_without_rules: bool | None

    @property
    def subject(self) -> str:
        return f"drctl's topics on cluster {self.name}"

    def impact(self, topics: Collection[str]) -> str:
        """What someone who can write to these topics could do."""
        details = []
        if JOURNAL in topics and self.link.journal_key:
            details.append(
                "runs can be ended, hidden or blocked (forged runs are rejected: journal.key signs"
                " them)"
            )
        elif JOURNAL in topics:
            details.append(
                "`drctl resume` would execute a forged run: without journal.key it looks like a"
                " real one"
            )
        if TRACKED_OFFSETS in topics:
            details.append("forged tracked offsets make groups skip records if the source is lost")
        if any(topic.startswith((_RECONCILE, _QUARANTINE)) for topic in topics):
            details.append("reconciled and quarantined records can be forged or deleted")
        if CANARY in topics:
            details.append("a failed write probe can look successful")
        if any(not topic.startswith(ON_TARGET) for topic in topics):
            details.append("a forged ledger hides unreplicated records from `drctl gap`")
        return "; ".join(details)

    def acl(
        self, change: str, principals: Collection[str], operations: Collection[str], topics: Names
    ) -> str:
        """The commands that add a rule for these principals and topics."""
        who = " ".join(f"{option(change, principal)}" for principal in principals)
        what = " ".join(f"--operation {quote(operation)}" for operation in operations)
        head = f"{kafka_tool('kafka-acls.sh', self.name)} --add {who} {what}"
        apart = dict.fromkeys(topic for topic in topics if not topic.startswith(PREFIX))
        lines = [f"{head} {option('--topic', topic)}" for topic in apart]
        if any(topic.startswith(PREFIX) for topic in topics):
            lines.append(f"{head} --topic {quote(PREFIX)} --resource-pattern-type prefixed")
        return "; ".join(lines)


def _judged(cluster: _Cluster, acls: Acls | Unavailable) -> Verdict:
    list_acls = f"{kafka_tool('kafka-acls.sh', cluster.name)} --list"
    grant = f"grant drctl's user DESCRIBE on cluster {cluster.name}, or list the ACLs: {list_acls}"
    known = require(acls, cluster.subject, "who may write to them is", grant)
    if not known.enforced:
        remedy = "configure an authorizer; until then restrict network access"
        if not cluster.link.journal_key:
            remedy += ", and set journal.key"
        reason = "it has no authorizer: everyone may write to, change and delete them"
        return warn(
            cluster.subject, reason, "ACLs are not enforced", cluster.impact(cluster.topics), remedy
        )
    # A fence is temporary: ignore what it denies.
    fences = rules_of_other_links(known.rules, "")
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
        remedy = f"check that only drctl logs in to {cluster.name} as {others[0]}"
        raise NotObserved(cluster.subject, reason, remedy, _described(may[others[0]]))
    details = f"{plural(len(known.rules), 'ACL')}; brokers do not report super.users"
    return ok(cluster.subject, "no ACL allows other users to write to them", details)


def _may_be_written(cluster: _Cluster, may: Mapping[str, Mapping[str, Names]]) -> Verdict:
    names = ["everyone" if who == EVERYBODY else who for who in may]
    reason = f"{listed(names)} may write to, change or delete them"
    if not cluster.own:
        reason += "; which of these is drctl's own user is not known"
    evidence = several(f"{who}: {_described(what)}" for who, what in may.items())
    denied = [who for who in may if who != EVERYBODY]
    touched = [name for what in may.values() for names in what.values() for name in names]
    topics = [name for who in denied for names in may[who].values() for name in names]
    remedies = []
    if denied and cluster.own:
        operations = tuple(_CHANGING.values())
        remedies.append(cluster.acl("--deny-principal", denied, operations, topics))
    elif denied:
        remedies.append(
            "deny these operations to all but drctl's user: kafka-acls.sh --add --deny-principal"
        )
    if EVERYBODY in may:
        # Denying everyone would deny drctl, too.
        remedies.append("remove the ACL that allows User:* once each application has its own ACLs")
    return warn(cluster.subject, reason, evidence, cluster.impact(touched), "; ".join(remedies))


def _without_rules(cluster: _Cluster, topics: Names) -> Verdict:
    evidence = f"no ACL names {listed([*map(_shown, topics)])}"
    if cluster.own:
        remedy = cluster.acl("--allow-principal", [cluster.own], ["All"], topics)
    else:
        remedy = f"add an ACL for drctl's own user on topics that begin with {PREFIX}"
    if cluster.open_without_rules:
        reason = f"everyone may write to topics without ACLs ({_IF_NO_RULE}=true)"
        return warn(cluster.subject, reason, evidence, cluster.impact(topics), remedy)
    reason = (
        f"{evidence}: brokers do not report whether everyone may write in that case ({_IF_NO_RULE})"
    )
    raise NotObserved(cluster.subject, reason, remedy)


def _allowed(rules: Collection[Acl], principal: str, topics: Names) -> Mapping[str, Names]:
    """The topics that a principal may change, by permitted operations."""
    found: dict[str, list[str]] = {}
    for topic in topics:
        grades = {each: access(rules, principal, each, topic) for each in _CHANGING}
        may = [each for each, grade in grades.items() if grade is not Access.NO]
        if may:
            hosts = "" if Access.YES in grades.values() else " from some hosts"
            found.setdefault(f"{', '.join(may)}{hosts}", []).append(topic)
    return found


def _described(allowed: Mapping[str, Names]) -> str:
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
    values = [
        None if isinstance(each, Unavailable) else each.get(_IF_NO_RULE)
        for each in settings.values()
    ]
    if "true" in values:
        return True
    return False if values and all(each == "false" for each in values) else None
