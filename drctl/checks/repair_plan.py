"""Differences between a link's clusters, as changes of the target or to fix by hand."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeGuard

from drctl.checks import acls, parity
from drctl.checks.acls import (
    FENCED,
    Refusal,
    RuleBook,
    covers,
    in_full,
    judged_principals,
    missing_allows,
    of_a_fence,
    refusals,
)
from drctl.checks.connector_settings import SOURCE, find
from drctl.checks.observed import Observed
from drctl.checks.parity import Pair, compared, does_less, does_more, limit, lower, number, policies
from drctl.checks.repairs import (
    NOT_OURS,
    Extension,
    Fix,
    Fixes,
    Left,
    LimitChange,
    ObservedTopics,
    SettingChange,
    keeps_its_topics,
)
from drctl.checks.verdict import NotObserved, require
from drctl.config.fields import UNCHANGED
from drctl.config.foreign_patterns import compiled
from drctl.model.finding import Finding, Status
from drctl.model.repairs import (
    CLIENT_OPERATIONS,
    TOPIC,
    Acl,
    Acls,
    TopicSetting,
    TopicShape,
    WantedTopic,
)
from drctl.model.survey import Entity, quota_of
from drctl.model.text import add_acl, kafka_tool, on_each, option, plural, remove_acl, scram_user
from drctl.model.topology import Unavailable

_USERS, _QUOTAS = "scram-user-parity", "quota-parity"
_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}
_SECRET = "passwords cannot be read from a cluster, so drctl cannot copy them"
_KEPT_QUOTA = "drctl deletes no quotas: this one may be meant for the target only"


def users_left(observed: Observed) -> Iterator[Left]:
    """SCRAM users that are missing on the target."""
    ours, theirs = observed.survey.source.scram_users, observed.survey.target.scram_users
    if isinstance(ours, Unavailable) or isinstance(theirs, Unavailable):
        return
    for name in sorted(ours - theirs):
        yield Left(
            _USERS,
            f"SCRAM user {name} is not on {observed.link.target}",
            _SECRET,
            "clients with this user cannot log in after a failover",
            f"add the user with its existing password: {scram_user(observed.link.target, name)}",
        )


def quotas_to_set(observed: Observed, _seen: ObservedTopics) -> Fixes:
    """Limits that are missing or lower on the target, and those that only the target has."""
    ours, theirs = observed.survey.source.quotas, observed.survey.target.quotas
    if isinstance(ours, Unavailable) or isinstance(theirs, Unavailable):
        return Fixes()
    fixes: list[Fix[LimitChange]] = []
    left: list[Left] = []
    for who in dict.fromkeys((*ours, *theirs)):
        wanted, there = ours.get(who, {}), theirs.get(who, {})
        for key, value in sorted(wanted.items()):
            now = there.get(key)
            if now is None or now < value:
                fixes.append(_limit_fix(observed, LimitChange(who, key, now, value)))
        # A quota that only the target has is stricter than none.
        if more := sorted(there.keys() - wanted.keys()):
            left.append(_only_there(observed, who, more))
    return Fixes(quotas=tuple(fixes), left=tuple(left))


def _limit_fix(observed: Observed, change: LimitChange) -> Fix[LimitChange]:
    what = f"quota {change.key} of {quota_of(change.entity)}"
    now = "missing" if change.was is None else f"{change.was:g}"
    why = "these clients are not throttled" if change.was is None else "these clients are throttled"
    return Fix(
        what, now, f"{change.to:g}", f"{why} after a failover", change, _per_broker(observed)
    )


def _per_broker(observed: Observed) -> str:
    layouts = observed.survey.source.layout, observed.survey.target.layout
    counts = [0 if isinstance(each, Unavailable) else len(each.brokers) for each in layouts]
    if not all(counts) or counts[0] == counts[1]:
        return ""
    source, target = observed.link.source, observed.link.target
    return f"quotas apply to each broker: {source} has {counts[0]}, {target} has {counts[1]}"


def _only_there(observed: Observed, who: Entity, keys: list[str]) -> Left:
    named = " ".join(
        f"{option('--entity-type', _TYPES.get(kind, kind))} "
        + ("--entity-default" if name is None else option("--entity-name", name))
        for kind, name in who
    )
    what = f"quota {','.join(keys)} of {quota_of(who)} is not on {observed.link.source}"
    change = option("--delete-config", ",".join(keys))
    remedy = f"{kafka_tool('kafka-configs.sh', observed.link.target)} --alter {change} {named}"
    return Left(_QUOTAS, what, _KEPT_QUOTA, "only the target throttles these clients", remedy)


_CHECK = "acl-parity"
_ALLOW, _DENY, _LITERAL, _PREFIXED = "ALLOW", "DENY", "LITERAL", "PREFIXED"
_ANY = "*"
_TOO_WIDE = "it would also allow access to what belongs to other applications on the target"
_KEPT_DENY = "drctl copies DENY ACLs only if they are on topics"
_DENIED = "is denied as soon as it uses the target"
_EXCESS = "may do more on the target than on the source"


def rules_to_add(observed: Observed, seen: ObservedTopics) -> Fixes:
    """The rules to add, and the differences to fix by hand.

    Raises:
        NotObserved: rules or topics are not known.
    """
    books = _read(observed, seen)
    if books is None:
        return Fixes()
    wanted: dict[Acl, Fix[Acl]] = {}
    left: list[Left] = []
    for refusal in books.refusals:
        if denied := books.denying(refusal):
            what = f"{refusal.principal} may not {refusal.operation} {refusal.copy}"
            why = (
                f"an ACL on the target denies it, and drctl deletes no ACLs: {in_words(denied[0])}"
            )
            remove = remove_acl(observed.link.target, denied[0])
            remedy = f"check why the ACL exists, then remove it: {remove}"
            left.append(Left(_CHECK, what, why, f"it {_DENIED}", remedy))
            continue
        for rule in books.allowing(refusal):
            wanted.setdefault(rule, _fix(observed, rule, _DENIED))
    for rule in books.missing_allows:
        if why_not := books.why_not(rule):
            what = f"{rule.principal} may not {rule.operation} {in_full(rule)}"
            remedy = add_acl(observed.link.target, rule)
            left.append(Left(_CHECK, what, why_not, f"it {_DENIED}", remedy))
        else:
            wanted.setdefault(rule, _fix(observed, rule, _DENIED))
    for rule in books.other_denials():
        what = f"ACL not on {observed.link.target}: {in_words(rule)}"
        remedy = f"if it is meant for the target, too: {add_acl(observed.link.target, rule)}"
        left.append(Left(_CHECK, what, _KEPT_DENY, f"{rule.principal} {_EXCESS}", remedy))
    for rule, why_not in books.denials():
        if why_not:
            what = f"ACL not on {observed.link.target}: {in_words(rule)}"
            remedy = "add it if it is meant for the target, too: kafka-acls.sh --add"
            left.append(Left(_CHECK, what, why_not, f"{rule.principal} {_EXCESS}", remedy))
        else:
            wanted.setdefault(rule, _fix(observed, rule, _EXCESS))
    return Fixes(rules=tuple(wanted.values()), left=tuple(left))


def in_words(rule: Acl) -> str:
    """A rule in the words of `kafka-acls.sh`."""
    topics = f"topics {rule.name}..." if rule.pattern == _PREFIXED else f"topic {rule.name}"
    where = topics if rule.resource == TOPIC else in_full(rule)
    host = "" if rule.host == _ANY else f" from {rule.host}"
    return f"{rule.permission} {rule.principal} {rule.operation} {where}{host}"


def _read(observed: Observed, seen: ObservedTopics) -> "_Books | None":
    """The rules; None if the target enforces no ACLs."""
    link = observed.link
    subject = f"ACLs of cluster {link.target}"
    remedy = f"list them: {on_each('kafka-acls.sh', (link.source, link.target), '--list')}"
    target = require(observed.target_acls, subject, "they are", remedy)
    if not target.enforced:
        return None
    source = require(observed.source_acls, subject, f"those of {link.source} are", remedy)
    topics = require(observed.source_topics, subject, f"the topics of {link.source} are", remedy)
    names = link.topics_of(name for name, state in topics.items() if state is not None)
    who = judged_principals(observed, source, subject)
    return _Books(observed, seen, source, target, who, names)


@dataclass(frozen=True)
class _Books:
    """The rules of both clusters.

    Attributes:
        topics: of the link, by their names on the source.
    """

    observed: Observed
    seen: ObservedTopics
    source: Acls
    target: Acls
    principals: tuple[str, ...]
    topics: tuple[str, ...]

    @cached_property
    def refusals(self) -> list[Refusal]:
        """Operations that principals would be denied."""
        copies = {name: self.observed.link.target_topic(name) for name in self.topics}
        return refusals(self.source, self.target, self.principals, copies)

    @cached_property
    def missing_allows(self) -> list[Acl]:
        """Rules of groups, transactional ids and the cluster to add."""
        return missing_allows(self.source, self.target, self.principals, self.topics)

    def why_not(self, rule: Acl) -> str:
        """Why drctl does not add such a rule; empty if it can be added."""
        there = self._theirs.concerning(rule.principal, rule.name, rule.resource)
        denying = [r for r in there if r.permission == _DENY and covers(r, rule)]
        if denied := [r for r in denying if r.host == _ANY and not of_a_fence(r, r.principal)]:
            return (
                f"an ACL on the target denies it, and drctl deletes no ACLs: {in_words(denied[0])}"
            )
        return _TOO_WIDE if rule.name == _ANY else ""

    def other_denials(self) -> Iterator[Acl]:
        """DENY rules of groups, transactional ids and cluster that are missing on the target."""
        there = set(self.target.rules)
        for rule in self.source.rules:
            if (
                rule.permission == _DENY
                and rule.resource in CLIENT_OPERATIONS
                and rule.principal in self.principals
                and rule not in there
                and not of_a_fence(rule, rule.principal)
            ):
                yield rule

    @cached_property
    def _ours(self) -> RuleBook:
        return RuleBook(self.source.rules)

    @cached_property
    def _theirs(self) -> RuleBook:
        return RuleBook(self.target.rules)

    def denying(self, refusal: Refusal) -> list[Acl]:
        """DENY rules of the target, which win over any ALLOW."""
        rules = self._theirs.concerning(refusal.principal, refusal.copy)
        return [
            rule
            for rule in rules
            if rule.permission == _DENY
            and rule.operation in (refusal.operation, "ALL")
            and rule.host == _ANY
            and not of_a_fence(rule, refusal.principal)
        ]

    def allowing(self, refusal: Refusal) -> Iterator[Acl]:
        """The source's ALLOW rules for the operation, limited to the copy and the principal."""
        topic = self.observed.link.source_topic(refusal.copy) or refusal.copy
        if not self.source.enforced:
            yield _rule(refusal, refusal.copy, _LITERAL, _ANY)
            return
        for rule in self._ours.concerning(refusal.principal, topic):
            if rule.permission == _ALLOW and rule.operation in (refusal.operation, "ALL"):
                name, pattern = self._named(rule, refusal.copy)
                yield _rule(refusal, name, pattern, rule.host)

    def denials(self) -> Iterator[tuple[Acl, str]]:
        """DENY rules that are missing on the target, each with the reason if it is not added."""
        applications = self.observed.link.settings.fence.principals
        found: dict[Acl, str] = {}
        for topic in self.topics:
            copy = self.observed.link.target_topic(topic)
            for principal in (*self.principals, "User:*"):
                for rule in self._ours.concerning(principal, topic):
                    if rule.permission != _DENY or rule.principal != principal:
                        continue
                    name, pattern = self._named(rule, copy)
                    for operation in FENCED if rule.operation == "ALL" else (rule.operation,):
                        new = Acl(name, pattern, principal, rule.host, operation, _DENY)
                        if operation in FENCED and not self._denied_there(new, copy):
                            found.setdefault(new, _why_not(rule, principal in applications))
        yield from found.items()

    def _denied_there(self, wanted: Acl, copy: str) -> bool:
        return any(
            rule.permission == _DENY
            and rule.operation in (wanted.operation, "ALL")
            and rule.host in (wanted.host, _ANY)
            for rule in self._theirs.concerning(wanted.principal, copy)
        )

    def _named(self, rule: Acl, copy: str) -> tuple[str, str]:
        """Keep a prefix only if it covers copies of the link and nothing else."""
        rename = self.observed.link.settings.replicator.rename
        prefix = rename.replace(UNCHANGED, rule.name)
        plain = rename.count(UNCHANGED) == 1 and rename.endswith(UNCHANGED)
        if rule.pattern == _PREFIXED and plain and self._only_copies(prefix):
            return prefix, _PREFIXED
        return copy, _LITERAL

    def _only_copies(self, prefix: str) -> bool:
        link = self.observed.link
        names = (name for name in self.seen.names if name.startswith(prefix))
        origins = (link.source_topic(name) for name in names)
        return all(origin is not None and link.carries(origin) for origin in origins)


def _why_not(rule: Acl, application: bool) -> str:
    if rule.principal == "User:*":
        return "it applies to everyone: it might block the replicator"
    if not application:
        return (
            "the principal is not in `fence.principals`: it might be the replicator, which writes"
            " to the copies"
        )
    if of_a_fence(rule, rule.principal) and rule.host == _ANY:
        return "it looks like a fence of the source, which must not apply to the target"
    return ""


def _rule(refusal: Refusal, name: str, pattern: str, host: str) -> Acl:
    return Acl(name, pattern, refusal.principal, host, refusal.operation, _ALLOW)


def _fix(observed: Observed, rule: Acl, why: str) -> Fix[Acl]:
    users = observed.survey.target.scram_users
    name = rule.principal.removeprefix("User:")
    note = ""
    if not isinstance(users, Unavailable) and users and name not in users and name != _ANY:
        note = f"{observed.link.target} has no SCRAM user {name}: the ACL has no effect until the"
        note += " user is added, unless it authenticates in another way"
    what = f"ACL {in_words(rule)}"
    return Fix(what, "missing", "present", f"{rule.principal} {why}", rule, note)


MIN_ISR, POLICY = "min.insync.replicas", "cleanup.policy"
_WEAKER, _KEPT, _TIME = "topic-config-parity", "retention-parity", "timestamp-type-parity"
_GONE = "records may expire before they are consumed, or before drctl gap can compare them"
# Settings that MirrorMaker 2 does not copy by default (`config.properties.exclude`).
_NOT_SYNCED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas,"
    r" message\.timestamp\.difference\.max\.ms, message\.timestamp\.type,"
    r" unclean\.leader\.election\.enable, min\.insync\.replicas"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A setting that a parity check compares.

    Attributes:
        weaker: whether the copy's value, given second, is weaker than the topic's.
        why: impact of a weaker value.
    """

    check: str
    weaker: Callable[[str, str], bool]
    why: str


def _shorter(topic: str, copy: str) -> bool:
    return (limit(copy) or 0) < (limit(topic) or 0)


JUDGED: Mapping[str, Judged] = {
    MIN_ISR: Judged(_WEAKER, lower, "acknowledged records are on fewer brokers than on the source"),
    "max.message.bytes": Judged(
        _WEAKER, lower, "the target rejects records that the source accepts"
    ),
    POLICY: Judged(
        _WEAKER,
        lambda topic, copy: does_more(topic, copy) or does_less(topic, copy),
        "the target deletes records that the source keeps",
    ),
    "retention.ms": Judged(_KEPT, _shorter, _GONE),
    "retention.bytes": Judged(_KEPT, _shorter, _GONE),
    "delete.retention.ms": Judged(_KEPT, _shorter, _GONE),
    "message.timestamp.type": Judged(
        _TIME,
        lambda topic, copy: copy == "LogAppendTime" != topic,
        "offsets by timestamp and lag in seconds are unknown",
    ),
}
"""The settings that drctl changes, and no others."""


def weaker_keys(pair: Pair) -> tuple[str, ...]:
    """Settings of a copy that are weaker or different."""
    both = pair.topic.config.keys() & pair.copy.config.keys()
    return tuple(
        key
        for key, judged in JUDGED.items()
        if key in both and judged.weaker(pair.topic.config[key], pair.copy.config[key])
    )


def settings_to_fix(observed: Observed, seen: ObservedTopics) -> Fixes:
    """The settings to change, and those that are left.

    Raises:
        NotObserved: the topics are not known.
    """
    fixes: list[Fix[SettingChange]] = []
    left: list[Left] = []
    for pair in compared(observed).pairs:
        ours, theirs = seen.ours.get(pair.topic.name), seen.theirs.get(pair.copy.name)
        for key in weaker_keys(pair):
            if not _has_setting(ours, key) or not _has_setting(theirs, key):
                what = f"topic {pair.copy.name}: {key}={pair.copy.config[key]}"
                why = "one of the clusters did not report whether the topic overrides it"
                again = "run drctl doctor --fix again"
                left.append(Left(JUDGED[key].check, what, why, JUDGED[key].why, again))
                continue
            one = _Difference(observed, pair, key, ours, theirs)
            blocker = next(one.blockers(), None)
            if blocker is None:
                fixes.append(one.fix())
            else:
                left.append(blocker)
    return Fixes(settings=tuple(fixes), left=tuple(left))


@dataclass(frozen=True, slots=True)
class _Difference:
    """One setting of one copy."""

    observed: Observed
    pair: Pair
    key: str
    ours: TopicShape
    theirs: TopicShape

    @property
    def wanted(self) -> TopicSetting:
        return self.ours.settings[self.key]

    @property
    def there(self) -> TopicSetting:
        return self.theirs.settings[self.key]

    def fix(self) -> Fix[SettingChange]:
        copy, key = self.pair.copy.name, self.key
        own = "" if self.there.own else " (broker default)"
        change = SettingChange(copy, key, self.there.value, self.wanted.value)
        why = JUDGED[key].why
        what, now = f"topic {copy}: {key}", f"{self.there.value}{own}"
        return Fix(what, now, self.wanted.value, why, change, self._note())

    def _note(self) -> str:
        count = self.theirs.replicas
        if self.key == MIN_ISR and number(self.wanted.value) == count > 1:
            return f"it has {plural(count, 'replica')}: the loss of one broker blocks acks=all"
        new = policies(self.wanted.value) - policies(self.there.value)
        if self.key == POLICY and new:
            return f"cleanup by {', '.join(sorted(new))} then starts on the copy, as on the source"
        return ""

    def blockers(self) -> Iterator[Left]:
        """The reasons why drctl does not change the setting."""
        copy, key, value = self.pair.copy.name, self.key, self.wanted.value
        if keeps_its_topics(self.observed):
            yield self._left(NOT_OURS, "check which settings the replicator copies")
        if key == MIN_ISR and number(value) > self.theirs.replicas:
            yield self._left(
                f"it has {replicas(self.theirs.replicas)}: with {key}={value} it would"
                " reject acks=all",
                "raise its replication factor first: kafka-reassign-partitions.sh",
            )
        if key == POLICY and policies(self.there.value) < policies(value):
            yield self._left(
                "it deletes records on the target, which cannot be rolled back",
                f"{kafka_tool('kafka-configs.sh', self.observed.link.target)} --alter"
                " --entity-type topics"
                f" {option('--entity-name', copy)} {option('--add-config', f'{key}=[{value}]')}",
            )
        if back := removed_again(self.observed, key, self.wanted, self.there):
            yield self._left(
                back,
                f"set {key}={value} on topic {self.pair.topic.name} of"
                f" {self.observed.link.source} itself (it is copied), or add it to"
                " config.properties.exclude of the connector",
            )

    def _left(self, why: str, remedy: str) -> Left:
        what = (
            f"topic {self.pair.copy.name}: {self.key}={self.there.value}"
            f" (source: {self.wanted.value})"
        )
        return Left(JUDGED[self.key].check, what, why, JUDGED[self.key].why, remedy)


def removed_again(observed: Observed, key: str, ours: TopicSetting, theirs: TopicSetting) -> str:
    """Why MirrorMaker 2 would remove a setting again; empty if it would not.

    It removes a setting from the copy if the source's topic only has it as Kafka's default.
    """
    if observed.link.settings.replicator.kind != "mirrormaker2" or not ours.default:
        return ""
    try:
        connector = find(observed, SOURCE)
    except NotObserved:
        return ""
    if connector is None or not _syncs(connector.config, key):
        return ""
    if theirs.beneath is not None and not JUDGED[key].weaker(ours.value, theirs.beneath):
        return ""
    seconds = connector.config.get("sync.topic.configs.interval.seconds", "600")
    return (
        f"connector {connector.name} (sync.topic.configs.enabled) would remove it within"
        f" {seconds} s: the source only has it by default, and the target's default differs"
    )


def _syncs(config: Mapping[str, str], key: str) -> bool:
    if config.get("sync.topic.configs.enabled", "true").lower() == "false":
        return False
    if config.get("use.defaults.from", "target") == "source":
        return False
    excluded = config.get("config.properties.exclude", _NOT_SYNCED)
    patterns = [compiled(each.strip()) for each in excluded.split(",")]
    # A pattern that only Java can evaluate may exclude it: assume that it does not.
    return not any(pattern and pattern.fullmatch(key) for pattern in patterns)


def _has_setting(shape: object, key: str) -> TypeGuard[TopicShape]:
    return isinstance(shape, TopicShape) and key in shape.settings


def replicas(number: int) -> str:
    """The number of replicas, in words."""
    return plural(number, "replica")


_MISSING, _FEWER = "topics-missing-on-target", "fewer-partitions-on-target"
_NOT_COPIED = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")


def topics_to_create(observed: Observed, seen: ObservedTopics) -> Fixes:
    """Copies that do not exist.

    Raises:
        NotObserved: the topics are not known.
    """
    link, layout = observed.link, observed.survey.target.layout
    fixes: list[Fix[WantedTopic]] = []
    left: list[Left] = []
    for copy in compared(observed).missing:
        ours = seen.ours.get(link.source_topic(copy) or "")
        what = f"topic {copy} does not exist"
        if keeps_its_topics(observed):
            left.append(Left(_MISSING, what, NOT_OURS, "", "check why it is not replicated"))
        elif not isinstance(ours, TopicShape) or isinstance(layout, Unavailable):
            why = f"the number of brokers of {link.target} is not known"
            if ours is None:
                why = "its topic was deleted meanwhile"
            elif isinstance(ours, Unavailable):
                why = f"its topic could not be read: {ours.reason}"
            left.append(Left(_MISSING, what, why, "", "create it: kafka-topics.sh --create"))
        elif copy in seen.names:
            why = f"drctl's user may not describe it on {link.target}"
            left.append(Left(_MISSING, what, why, "", "grant DESCRIBE on it"))
        else:
            fixes.append(_made(copy, ours, len(layout.brokers)))
    return Fixes(topics=tuple(fixes), left=tuple(left))


def partitions_to_add(observed: Observed, _seen: ObservedTopics) -> Fixes:
    """Copies that have fewer partitions than their topics.

    Replication keeps the partition number of each record, so adding partitions moves no key.

    Raises:
        NotObserved: the topics are not known.
    """
    fixes: list[Fix[Extension]] = []
    left: list[Left] = []
    for pair in compared(observed).pairs:
        now, wanted = len(pair.copy.partitions), len(pair.topic.partitions)
        if now >= wanted:
            continue
        what = f"topic {pair.copy.name}: partitions"
        if keeps_its_topics(observed):
            fewer = f"{what}: {now} of {wanted}"
            left.append(Left(_FEWER, fewer, NOT_OURS, "", "check why the replicator adds none"))
            continue
        why = (
            "the other partitions are not replicated, keys map to other partitions, and offsets"
            " cannot be translated"
        )
        change = Extension(pair.copy.name, wanted)
        note = "partitions cannot be removed again"
        fixes.append(Fix(what, str(now), str(wanted), why, change, note))
    return Fixes(partitions=tuple(fixes), left=tuple(left))


def _made(copy: str, ours: TopicShape, brokers: int) -> Fix[WantedTopic]:
    count = min(ours.replicas, brokers)
    config = dict(_config(ours, count))
    change = WantedTopic(copy, ours.partitions, count, config)
    after = f"{plural(ours.partitions, 'partition')}, {replicas(count)}"
    if config:
        after += f", {', '.join(f'{key}={value}' for key, value in config.items())}"
    return Fix(
        f"topic {copy}",
        "missing",
        after,
        "its clients fail, or auto-create it; the replicator fills it if it replicates the topic",
        change,
        _note(ours, count, config),
    )


def _config(ours: TopicShape, replicas: int) -> Iterator[tuple[str, str]]:
    """The topic's settings for creating its copy: those explicitly set, and those compared."""
    for key, setting in sorted(ours.settings.items()):
        wanted = setting.own or (key in JUDGED and not setting.default)
        if wanted and key not in _NOT_COPIED:
            fits = key != MIN_ISR or int(setting.value) <= replicas
            yield key, setting.value if fits else str(replicas)


def _note(ours: TopicShape, replicas: int, config: Mapping[str, str]) -> str:
    notes = []
    if replicas < ours.replicas:
        notes.append(
            f"the source has {plural(ours.replicas, 'replica')}, the target only"
            f" {plural(replicas, 'broker')}"
        )
    asked = ours.settings.get(MIN_ISR)
    if asked is not None and MIN_ISR in config and config[MIN_ISR] != asked.value:
        notes.append(f"{MIN_ISR} is {asked.value} on the source, more than the target's replicas")
    return "; ".join(notes)


_PARITY = (
    parity.missing,
    parity.fewer,
    parity.settings,
    acls.acls,
    parity.retention,
    parity.timestamps,
    parity.scram_users,
    parity.quotas,
)
_BY_HAND = (parity.orphans, parity.brokers, parity.offsets_partitions)
_KEPT_TOPICS = "drctl deletes no topics"
_OUT_OF_REACH = "it is a setting of the cluster, not of the link"
_OTHER_RULES = Left(
    "acls-not-compared",
    "ACLs of groups, of transactional ids and of the cluster",
    "the source enforces no ACLs, so drctl compares only permissions on topics",
    "an application without access to its group or transactional id is denied",
    "list them with kafka-acls.sh --list, and add what applications need",
)

COMPARED = tuple(check.name for check in (*_PARITY, *_BY_HAND))
"""The checks whose findings are fixed."""


def differing_topics(observed: Observed) -> tuple[str, ...]:
    """Topics of the source that differ from their copies, or have none."""
    try:
        pairs = compared(observed)
    except NotObserved:
        return ()
    link = observed.link
    missing = (link.source_topic(copy) for copy in pairs.missing)
    return (
        *(name for name in missing if name is not None),
        *(pair.topic.name for pair in pairs.pairs if weaker_keys(pair)),
    )


def all_fixes(observed: Observed, seen: ObservedTopics) -> Fixes:
    """The changes, and the differences to fix by hand."""
    found = Fixes()
    for fixes in (
        rules_to_add,
        quotas_to_set,
        settings_to_fix,
        partitions_to_add,
        topics_to_create,
    ):
        try:
            found += fixes(observed, seen)
        except NotObserved:
            continue  # Reported by its check: see `_not_observed`.
    left = (*users_left(observed), *_not_observed(observed))
    beyond = tuple(_by_hand(observed))
    ours, theirs = observed.source_acls, observed.target_acls
    if (
        isinstance(ours, Acls)
        and isinstance(theirs, Acls)
        and theirs.enforced
        and not ours.enforced
    ):
        beyond += (_OTHER_RULES,)
    return found + Fixes(left=left, beyond=beyond)


def _not_observed(observed: Observed) -> Iterator[Left]:
    for check in _PARITY:
        for finding in check.findings(observed):
            if finding.status is Status.NOT_CHECKED:
                yield _left(finding, f"it was not checked: {finding.reason}")


def _by_hand(observed: Observed) -> Iterator[Left]:
    for check in _BY_HAND:
        for finding in check.findings(observed):
            if finding.status in (Status.WARN, Status.FAIL):
                kept = check is parity.orphans
                yield _left(finding, _KEPT_TOPICS if kept else _OUT_OF_REACH)


def _left(finding: Finding, why: str) -> Left:
    what = f"{finding.subject}: {finding.evidence or finding.reason}"
    return Left(finding.check, what, why, finding.impact, finding.remedy)
