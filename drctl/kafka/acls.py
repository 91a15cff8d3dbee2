"""ACLs: read and change them, and check that every broker enforces them.

librdkafka is not used here: for a user without permission it returns an empty list of ACLs instead
of an error.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from time import sleep
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka.brokers import BrokerSocket, ClusterClient, NotRetriable, Task, addresses_in
from drctl.kafka.connection import in_chunks, in_rounds
from drctl.kafka.deadline import Deadline
from drctl.kafka.protocol import (
    INT8,
    INT16,
    NULLABLE_STRING,
    STRING,
    TEXT,
    THROTTLE,
    Api,
    Read,
    body_reader,
    body_writer,
    only_field,
    rows,
    skipped,
)
from drctl.model.fencing import (
    DENY,
    LITERAL,
    PREFIXED,
    AclReader,
    AclWriter,
    Enforcement,
    may_be_of_a_fence,
    rules_of_other_links,
    sign,
)
from drctl.model.repairs import CLIENT_OPERATIONS, TOPIC, Acl, Acls
from drctl.model.topology import Unanswered, Unavailable

DESCRIBE_ACLS = Api("DescribeAcls", 29, 2, True, "2.4")
CREATE_ACLS = Api("CreateAcls", 30, 2, True, "2.4")
DELETE_ACLS = Api("DeleteAcls", 31, 2, True, "2.4")

OPERATIONS = (
    "UNKNOWN",
    "ANY",
    "ALL",
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
    "IDEMPOTENT_WRITE",
    "CREATE_TOKENS",
    "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT",
)
"""ACL operations; the index is Kafka's code."""

_PERMISSIONS = ("UNKNOWN", "ANY", "DENY", "ALLOW")
_PATTERNS = ("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED")
_RESOURCES = (
    "UNKNOWN",
    "ANY",
    "TOPIC",
    "GROUP",
    "CLUSTER",
    "TRANSACTIONAL_ID",
    "DELEGATION_TOKEN",
    "USER",
)


class AclList(NamedTuple):
    """The response to DescribeAcls.

    Attributes:
        error: Kafka's error code; 0 for success.
        text: the broker's error message; may be empty.
    """

    error: int
    text: str
    rules: frozenset[Acl]


class AclResult(NamedTuple):
    """The result of creating or deleting one ACL.

    Attributes:
        error: Kafka's error code; 0 for success.
        text: the broker's error message; may be empty.
    """

    error: int
    text: str


_ACL_FILTER = body_writer(
    *(INT8, NULLABLE_STRING, INT8, NULLABLE_STRING, NULLABLE_STRING, INT8, INT8)
)


def describe_acls(permission: str = "ANY") -> bytes:
    """Request all ACLs with this permission."""
    every, pattern = _RESOURCES.index("ANY"), _PATTERNS.index("ANY")
    operation, kind = OPERATIONS.index("ANY"), _PERMISSIONS.index(permission)
    return _ACL_FILTER(every, None, pattern, None, None, operation, kind)


def _acl_list(error: int, text: str, resources: Iterable[tuple[Any, ...]]) -> AclList:
    rules = set()
    for resource, name, pattern, acls in resources:
        kind = _word(_RESOURCES, resource)
        for principal, host, operation, permission in acls:
            words = _word(OPERATIONS, operation), _word(_PERMISSIONS, permission)
            rules.add(Acl(name, _word(_PATTERNS, pattern), principal, host, *words, kind))
    return AclList(error, text, frozenset(rules))


def _word(words: tuple[str, ...], code: int) -> str:
    # A code from a newer Kafka must not equal a known one.
    return words[code] if code < len(words) else f"UNKNOWN_{code}"


_RULE = (INT8, STRING, INT8, STRING, STRING, INT8, INT8)
_RULES = body_writer(rows(*_RULE))


def write_acls(rules: Iterable[Acl]) -> bytes:
    """Create these ACLs, or delete exactly these.

    A deletion is a list of filters with the same fields; a filter in which every text is set
    matches only the ACL itself.
    """
    return _RULES(
        (
            _RESOURCES.index(rule.resource),
            rule.name,
            _PATTERNS.index(rule.pattern),
            rule.principal,
            rule.host,
            OPERATIONS.index(rule.operation),
            _PERMISSIONS.index(rule.permission),
        )
        for rule in rules
    )


def _deletion(error: int, text: str, matches: Sequence[AclResult]) -> AclResult:
    failed = [each for each in matches if each.error]
    return failed[0] if failed and not error else AclResult(error, text)


read_acls = body_reader(
    _acl_list, *(THROTTLE, INT16, TEXT), rows(INT8, STRING, INT8, rows(STRING, STRING, INT8, INT8))
)

read_created: Read[tuple[AclResult, ...]] = body_reader(
    only_field, THROTTLE, rows(INT16, TEXT, into=AclResult)
)
"""One result per ACL, in the order of the request."""

_MATCHES = rows(INT16, TEXT, *map(skipped, _RULE), into=AclResult)
read_deleted: Read[tuple[AclResult, ...]] = body_reader(
    only_field, THROTTLE, rows(INT16, TEXT, _MATCHES, into=_deletion)
)
"""One result per ACL, in the order of the request; deleting a missing ACL succeeds."""

# All brokers have the same ACLs; ask several in case one hangs.
_ASKED = 3
# New rules are applied within some 30 ms, and on a busy cluster within a second.
_PAUSE_S = 0.02
_RETRY_S = 0.1

Unmet = Callable[[frozenset[Acl]], str]
"""What is wrong with a broker's rules, in words; empty if nothing is."""


class KafkaAclReader(ClusterClient):
    """Implements `AclReader` of `drctl.model.fencing`."""

    def acls(self) -> Acls | Unavailable:
        """All ACLs, or why they cannot be read.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        deadline = self._connection.deadline()
        addresses = self._brokers.addresses(deadline)
        some = dict(islice(sorted(addresses.items()), _ASKED))
        tasks = dict.fromkeys(some, _list)
        answers = self._brokers.ask(tasks, some, deadline, lambda listed: not listed.error)
        listed = _best_answer(answers.values())
        if isinstance(listed, Unavailable):
            return listed
        if listed.error == KafkaError.SECURITY_DISABLED:
            return Acls(enforced=False)
        if listed.error:
            return Unavailable(self._connection.redacted(_refusal(listed)))
        return Acls(enforced=True, rules=tuple(sorted(listed.rules)))

    def enforcement(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Wait until every broker has all of these DENY rules, up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        wanted = frozenset(rules)
        return self._watch(wanted, topics, lambda seen: wanted - seen, "not applied yet")

    def lifted(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Wait until no broker has any of these DENY rules, up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: drctl's own connections do not support the properties.
        """
        unwanted = frozenset(rules)
        return self._watch(unwanted, topics, lambda seen: unwanted & seen, "still applied")

    def _watch(
        self,
        rules: Collection[Acl],
        topics: Collection[str],
        wrong: Callable[[frozenset[Acl]], frozenset[Acl]],
        what: str,
    ) -> Enforcement:
        """Ask each broker until none of its rules is wrong."""

        def unmet(seen: frozenset[Acl]) -> str:
            return _unmet_text(wrong(seen), len(rules), what)

        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        addresses = addresses_in(metadata)
        found: dict[int, Unavailable | None] = dict.fromkeys(addresses, _NOT_ASKED)
        watches = {node: _Watch(unmet, deadline) for node in addresses}
        pending = set(addresses)
        while pending:
            tasks: dict[int, Task[Unavailable | None]] = {n: watches[n].run for n in pending}
            found |= self._brokers.ask(tasks, addresses, deadline)
            # Retry brokers that closed the connection.
            pending = {n for n in pending if found[n] and not isinstance(found[n], NotRetriable)}
            self._connection.wait(min(_RETRY_S, deadline.remaining) if pending else 0)
            if deadline.expired:
                break
        found_on = {node: watches[node].with_last_answer(why) for node, why in found.items()}
        found_on |= dict.fromkeys(_unseen(metadata, topics), _UNSEEN)
        return Enforcement(found_on, len(rules), sum(watch.looks for watch in watches.values()))


class _Watch:
    """Polls one broker until its rules are as wanted."""

    def __init__(self, unmet: Unmet, deadline: Deadline) -> None:
        self._unmet = unmet
        self._deadline = deadline
        self._last = ""
        self.looks = 0

    def with_last_answer(self, why: Unavailable | None) -> Unavailable | None:
        """Add what the broker last answered before the connection failed."""
        if why is None or not self._last or isinstance(why, NotRetriable):
            return why
        return Unavailable(f"{self._last}; then {why.reason}")

    def run(self, opened: BrokerSocket) -> Unavailable | None:
        """Poll until the rules are as wanted; at the deadline, return what is still wrong."""
        while True:
            self.looks += 1
            listed = opened.exchange(DESCRIBE_ACLS, describe_acls(DENY), read_acls)
            if listed.error:
                return NotRetriable(_refusal(listed))
            self._last = self._unmet(listed.rules)
            if not self._last:
                return None
            if self._deadline.remaining <= _PAUSE_S:
                return NotRetriable(self._last)
            sleep(_PAUSE_S)


_NOT_ASKED = Unavailable("not asked")
_UNSEEN = Unavailable(
    "it holds replicas but is not in the cluster: if it is partitioned or stalled, it may still"
    " acknowledge records when it resumes"
)


def _list(opened: BrokerSocket) -> AclList:
    return opened.exchange(DESCRIBE_ACLS, describe_acls(), read_acls)


def _best_answer(answers: Collection[AclList | Unavailable]) -> AclList | Unavailable:
    """Prefer rules over an error, and an error over no answer."""
    listed = [answer for answer in answers if isinstance(answer, AclList)]
    whole = [answer for answer in listed if not answer.error]
    return next(iter((*whole, *listed, *answers)), Unavailable("the cluster has no brokers"))


def _refusal(listed: AclList) -> str:
    if listed.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return "this user may not read ACLs; grant it DESCRIBE on the cluster"
    if listed.error == KafkaError.SECURITY_DISABLED:
        return "no authorizer is configured: ACLs are not enforced"
    return listed.text or str(KafkaError(listed.error).str())


def _unseen(metadata: ClusterMetadata, topics: Collection[str]) -> set[int]:
    """Brokers that hold replicas of the topics but are not in the cluster."""
    known = (metadata.topics[name] for name in topics if name in metadata.topics)
    holders = {n for topic in known for part in topic.partitions.values() for n in part.replicas}
    return holders - metadata.brokers.keys()


def _unmet_text(rules: Collection[Acl], total: int, what: str) -> str:
    if not rules:
        return ""
    first = min(rules)
    example = f"{first.permission} {first.operation} on {first.on} to {first.principal}"
    return f"ACLs {what}: {len(rules)} of {total}, for example {example}"


# A controller accepts 10,000 changes per request. Clients wait while a fence is set: 2,000 ACLs
# take half as long in one request as in four.
_CHUNK = 2_500
_CHANGED_BY = 5
# Returned while there is no controller, or while it does not answer.
_RETRIED = frozenset(
    {
        KafkaError.NOT_CONTROLLER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNKNOWN,
    }
)

Answers = Mapping[Acl, Unavailable | None]


class _Change(NamedTuple):
    api: Api
    read: Read[tuple[AclResult, ...]]


_CREATE = _Change(CREATE_ACLS, read_created)
_DELETE = _Change(DELETE_ACLS, read_deleted)


class _AclClient(ClusterClient):
    """Changes ACLs. Changes are idempotent."""

    def _changed(
        self, rules: Collection[Acl], change: _Change, allowed: Callable[[Acl], bool], what: str
    ) -> Answers:
        """Change these rules after checking that this client may change each."""
        for rule in rules:
            if not allowed(rule):
                raise ValueError(f"not {what}: {rule}")
        deadline = self._connection.deadline()
        return in_rounds(
            self._connection,
            rules,
            lambda some, timeout: self._attempt(list(some), change, deadline.sooner(timeout)),
            lambda answer: isinstance(answer, Unanswered | _NotSent),
            deadline,
        )

    def _attempt(self, rules: Sequence[Acl], change: _Change, deadline: Deadline) -> Answers:
        """Send all changes through the first broker that accepts a connection."""
        addresses = self._brokers.addresses(deadline)
        some = dict(islice(sorted(addresses.items()), _CHANGED_BY))
        run = _FirstConnection(rules, change)
        answers = self._brokers.ask(dict.fromkeys(some, run), some, deadline, enough=bool)
        lost = [answer for answer in answers.values() if isinstance(answer, Unavailable)]
        permanent = [answer for answer in lost if isinstance(answer, NotRetriable)]
        why = next(iter((*permanent, *lost)), _NOT_SENT)
        if run.began:
            rest: Unavailable = Unanswered(why.reason)
        else:
            rest = why if permanent else _NotSent(f"not sent: {why.reason}")
        return {r: self._answer(run.results[r]) if r in run.results else rest for r in rules}

    def _answer(self, results: AclResult) -> Unavailable | None:
        if not results.error:
            return None
        if results.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return Unavailable("this user may not change ACLs; grant it ALTER on the cluster")
        if results.error == KafkaError.SECURITY_DISABLED:
            return Unavailable("no authorizer is configured: ACLs are not enforced")
        text = self._connection.redacted(results.text or KafkaError(results.error).str())
        return Unanswered(text) if results.error in _RETRIED else Unavailable(text)


class KafkaAclWriter(_AclClient):
    """Implements `AclWriter` of `drctl.model.fencing`; each call ends within `timeout_s`."""

    def deny(self, rules: Collection[Acl]) -> Answers:
        """Add these rules; for each rule, return None or why it failed.

        Raises:
            ValueError: a rule does not deny exactly what a fence denies.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._changed(rules, _CREATE, _is_fence_rule, _FENCE_RULE)

    def restore(self, rules: Collection[Acl]) -> Answers:
        """Remove exactly these rules; for each rule, return None or why it failed.

        Raises:
            ValueError: a rule does not deny exactly what a fence denies.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._changed(rules, _DELETE, _is_fence_rule, _FENCE_RULE)


_FENCE_RULE = "a fence rule"


def _is_fence_rule(rule: Acl) -> bool:
    """Whether this is an exact fence rule: a deletion with fewer fields would match other rules."""
    exact = rule.pattern in (LITERAL, PREFIXED) and all((rule.name, rule.principal, rule.host))
    return exact and may_be_of_a_fence(rule)


class _FirstConnection:
    """Sends the changes through the first open connection only."""

    def __init__(self, rules: Sequence[Acl], change: _Change) -> None:
        self._rules = rules
        self._change = change
        self._first = Lock()
        self.began = False
        self.results: dict[Acl, AclResult] = {}

    def __call__(self, opened: BrokerSocket) -> bool:
        """Send all changes if this is the first open connection; return whether it is."""
        if not self._first.acquire(blocking=False):
            return False
        self.began = True
        for chunk in in_chunks(self._rules, _CHUNK):
            results = opened.exchange(self._change.api, write_acls(chunk), self._change.read)
            self.results |= zip(chunk, results, strict=True)
        return True


class _NotSent(Unavailable):
    """No broker took the request; it is retried."""


_NOT_SENT = _NotSent("not sent: no broker answered")


@dataclass(frozen=True, slots=True)
class SharedRules:
    """Implements `AclWriter` for one link; keeps rules that fences of other links need.

    Attributes:
        link: its name.
    """

    writer: AclWriter
    reader: AclReader
    link: str

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Add these rules, signed; for each rule, return None or why it failed."""
        signs = {rule: sign(rule, self.link) for rule in rules}
        answers = self.writer.deny((*signs.values(), *rules))
        return {rule: answers[rule] or answers[signs[rule]] for rule in rules}

    def restore(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Remove these rules, except those that other links need.

        For each rule, return None, why it was kept, or why it failed.
        """
        signs = {rule: sign(rule, self.link) for rule in rules}
        unsigned = self.writer.restore(tuple(signs.values()))
        present = self.reader.acls()
        if isinstance(present, Unavailable):
            # Lifting another link's fence is worse than keeping a rule.
            unknown = f"cannot tell whether another link needs it: {present.reason}"
            return dict.fromkeys(rules, Unavailable(unknown))
        others = rules_of_other_links(present.rules, self.link)
        kept = {
            rule: Unavailable(f"the fence of link {others[rule].link} needs it")
            for rule in rules
            if rule in others
        }
        gone = self.writer.restore([rule for rule in rules if rule not in kept])
        return {**{rule: why or unsigned[signs[rule]] for rule, why in gone.items()}, **kept}


_CLIENT_PERMISSIONS = frozenset({"ALLOW", DENY})
_OPERATIONS_OF = {TOPIC: ("READ", "WRITE"), **CLIENT_OPERATIONS}
_EVERY_TOPIC = "*"


class KafkaRuleWriter(_AclClient):
    """Implements `RuleWriter` of `drctl.model.repairs`; connects on first use.

    Both calls are idempotent, and end within about `timeout_s`.
    """

    def add(self, rules: Collection[Acl]) -> Answers:
        """Add these rules; for each rule, return None or why it failed.

        Raises:
            ValueError: a rule is a wildcard, or is not exact.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: drctl's own connections do not support the properties.
        """
        return self._changed(rules, _CREATE, _is_client_rule, _CLIENT_RULE)

    def remove(self, rules: Collection[Acl]) -> Answers:
        """Remove exactly these rules; for each rule, return None or why it failed.

        Raises:
            ValueError, Unreachable, ConfigError: as for `add`.
        """
        return self._changed(rules, _DELETE, _is_client_rule, _CLIENT_RULE)


_CLIENT_RULE = "a client rule for specific topics, groups or transactional ids"


def _is_client_rule(rule: Acl) -> bool:
    exact = rule.pattern in (LITERAL, PREFIXED) and all(rule) and rule.name != _EVERY_TOPIC
    known = _OPERATIONS_OF.get(rule.resource, ())
    return exact and rule.permission in _CLIENT_PERMISSIONS and rule.operation in known
