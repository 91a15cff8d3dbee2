"""The ACLs of one cluster's topics, as the cluster tells them and as each broker applies them.

librdkafka could ask this, and must not: from a user that may not see ACLs it returns an empty list
in place of the refusal.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from time import sleep
from typing import NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.kafka import protocol_cluster as wire
from drctl.kafka.broker_socket import BrokerSocket
from drctl.kafka.brokers import ClusterClient, Hopeless, Task, addresses_in
from drctl.kafka.connection import in_chunks, in_rounds
from drctl.kafka.deadline import Deadline
from drctl.kafka.protocol import Api, Read
from drctl.model.fencing import (
    DENY,
    LITERAL,
    PREFIXED,
    AclReader,
    AclWriter,
    Denied,
    Enforcement,
    rules_of_other_links,
    sign,
)
from drctl.model.repairs import Acl, Acls
from drctl.model.topology import Unanswered, Unavailable

# All brokers have the same rules: a few are asked, in case one of them hangs.
_ASKED = 3
# New rules are applied within some 30 ms, and on a busy cluster within a second.
_PAUSE_S = 0.02
_RETRY_S = 0.1

Missing = Callable[[frozenset[Acl]], str]
"""What is not as wanted among a broker's rules, in words; empty where all is."""


class KafkaAclReader(ClusterClient):
    """Implements `AclReader` of `drctl.model.fencing`."""

    def acls(self) -> Acls | Unavailable:
        """All rules about topics, or why they cannot be seen.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        deadline = self._connection.deadline()
        addresses = self._brokers.addresses(deadline)
        some = dict(islice(sorted(addresses.items()), _ASKED))
        tasks = dict.fromkeys(some, _list)
        answers = self._brokers.ask(tasks, some, deadline, lambda listed: not listed.error)
        listed = _best(answers.values())
        if isinstance(listed, Unavailable):
            return listed
        if listed.error == KafkaError.SECURITY_DISABLED:
            return Acls(enforced=False)
        if listed.error:
            return Unavailable(self._connection.redacted(_reason(listed)))
        return Acls(enforced=True, rules=tuple(sorted(listed.rules)))

    def enforcement(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Whether each broker has all of these denying rules; waits for it up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        wanted = frozenset(rules)
        return self._watched(wanted, topics, lambda seen: wanted - seen, "not there yet")

    def lifted(self, rules: Collection[Acl], topics: Collection[str]) -> Enforcement:
        """Whether each broker has none of them any more; waits for it up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        unwanted = frozenset(rules)
        return self._watched(unwanted, topics, lambda seen: unwanted & seen, "still there")

    def _watched(
        self,
        rules: Collection[Acl],
        topics: Collection[str],
        wrong: Callable[[frozenset[Acl]], frozenset[Acl]],
        what: str,
    ) -> Enforcement:
        """Asks each broker until no rule is wrong among those that it has."""

        def missing(seen: frozenset[Acl]) -> str:
            return _counted(wrong(seen), len(rules), what)

        deadline = self._connection.deadline()
        metadata = self._connection.metadata(deadline)
        addresses = addresses_in(metadata)
        found: dict[int, Unavailable | None] = dict.fromkeys(addresses, _SILENT)
        watches = {node: _Watch(missing, deadline) for node in addresses}
        pending = set(addresses)
        while pending:
            tasks: dict[int, Task[Unavailable | None]] = {n: watches[n].run for n in pending}
            found |= self._brokers.ask(tasks, addresses, deadline)
            # One that hung up may be back in a moment.
            pending = {n for n in pending if found[n] and not isinstance(found[n], Hopeless)}
            self._connection.wait(min(_RETRY_S, deadline.remaining) if pending else 0)
            if deadline.expired:
                break
        told = {node: watches[node].said(why) for node, why in found.items()}
        told |= dict.fromkeys(_unseen(metadata, topics), _UNSEEN)
        return Enforcement(told, len(rules), sum(watch.looks for watch in watches.values()))


class _Watch:
    """Asks a broker again until it answers what is wanted."""

    def __init__(self, missing: Missing, deadline: Deadline) -> None:
        self._missing = missing
        self._deadline = deadline
        self._last = ""
        self.looks = 0

    def said(self, why: Unavailable | None) -> Unavailable | None:
        """That, and what the broker answered before it was lost."""
        if why is None or not self._last or isinstance(why, Hopeless):
            return why
        return Unavailable(f"{self._last}; then {why.reason}")

    def run(self, opened: BrokerSocket) -> Unavailable | None:
        """None where all is as wanted in time, or what was last in the way."""
        while True:
            self.looks += 1
            listed = opened.exchange(wire.DESCRIBE_ACLS, wire.describe_acls(DENY), wire.read_acls)
            if listed.error:
                return Hopeless(_reason(listed))
            self._last = self._missing(listed.rules)
            if not self._last:
                return None
            if self._deadline.remaining <= _PAUSE_S:
                return Hopeless(self._last)
            sleep(_PAUSE_S)


_SILENT = Unavailable("nobody asked it")
_UNSEEN = Unavailable(
    "it holds replicas and the cluster does not see it: one that is only cut off or stalled may"
    " acknowledge records when it goes on"
)


def _list(opened: BrokerSocket) -> wire.Listed:
    return opened.exchange(wire.DESCRIBE_ACLS, wire.describe_acls(), wire.read_acls)


def _best(answers: Collection[wire.Listed | Unavailable]) -> wire.Listed | Unavailable:
    """Rules before a refusal, and a refusal before silence."""
    listed = [answer for answer in answers if isinstance(answer, wire.Listed)]
    whole = [answer for answer in listed if not answer.error]
    return next(iter((*whole, *listed, *answers)), Unavailable("no broker is there"))


def _reason(listed: wire.Listed) -> str:
    if listed.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return "this user may not see ACLs; grant DESCRIBE on the cluster"
    if listed.error == KafkaError.SECURITY_DISABLED:
        return "it has no authorizer: it enforces no ACLs"
    return listed.text or str(KafkaError(listed.error).str())


def _unseen(metadata: ClusterMetadata, topics: Collection[str]) -> set[int]:
    """Brokers that hold replicas of the topics and are not there."""
    known = (metadata.topics[name] for name in topics if name in metadata.topics)
    holders = {n for topic in known for part in topic.partitions.values() for n in part.replicas}
    return holders - metadata.brokers.keys()


def _counted(rules: Collection[Acl], total: int, what: str) -> str:
    if not rules:
        return ""
    first = min(rules)
    example = f"{first.permission} {first.operation} on {first.name} to {first.principal}"
    return f"{len(rules)} of {total} rules are {what}, such as {example}"


# A controller takes 10,000 changes in one call; what fails, fails in small parts.
_CHUNK = 500
_CHANGED_BY = 5
# What a broker says while there is no controller, or while it does not answer.
_AGAIN = frozenset(
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
    read: Read[tuple[wire.Changed, ...]]


_CREATE = _Change(wire.CREATE_ACLS, wire.read_created)
_DELETE = _Change(wire.DELETE_ACLS, wire.read_deleted)


class _AclClient(ClusterClient):
    """Changes rules. A change may be repeated: nothing is added twice, what is gone is gone."""

    def _changed(
        self, rules: Collection[Acl], change: _Change, allowed: Callable[[Acl], bool], what: str
    ) -> Answers:
        """Change these rules, if all of them may be changed by this client."""
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
        """Everything, by the first broker that lets us in."""
        addresses = self._brokers.addresses(deadline)
        some = dict(islice(sorted(addresses.items()), _CHANGED_BY))
        run = _Once(rules, change)
        answers = self._brokers.ask(dict.fromkeys(some, run), some, deadline, enough=bool)
        lost = [answer for answer in answers.values() if isinstance(answer, Unavailable)]
        hopeless = [answer for answer in lost if isinstance(answer, Hopeless)]
        why = next(iter((*hopeless, *lost)), _NOT_SENT)
        if run.began:
            rest: Unavailable = Unanswered(why.reason)
        else:
            rest = why if hopeless else _NotSent(f"not sent: {why.reason}")
        return {r: self._answer(run.made[r]) if r in run.made else rest for r in rules}

    def _answer(self, made: wire.Changed) -> Unavailable | None:
        if not made.error:
            return None
        if made.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return Unavailable("this user may not change ACLs; grant ALTER on the cluster")
        if made.error == KafkaError.SECURITY_DISABLED:
            return Unavailable("the cluster has no authorizer: it enforces no ACLs")
        text = self._connection.redacted(made.text or KafkaError(made.error).str())
        return Unanswered(text) if made.error in _AGAIN else Unavailable(text)


class KafkaAclWriter(_AclClient):
    """Implements `AclWriter` of `drctl.model.fencing`; each call ends within `timeout_s`."""

    def deny(self, rules: Collection[Acl]) -> Answers:
        """Add these; by rule None where it is there now, or why it is not.

        Raises:
            ValueError: one of them is no exact rule that denies reading or writing.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: the properties cannot be used for connections of our own.
        """
        return self._changed(rules, _CREATE, _denies, _OF_FENCES)

    def restore(self, rules: Collection[Acl]) -> Answers:
        """Remove exactly these; by rule None where it is gone now, or why it is not.

        Raises:
            ValueError: one of them is no exact rule that denies reading or writing.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: the properties cannot be used for connections of our own.
        """
        return self._changed(rules, _DELETE, _denies, _OF_FENCES)


_OF_FENCES = "a rule of a fence"


def _denies(rule: Acl) -> bool:
    """A rule that says less than all of this would, in a deletion, match rules of others."""
    exact = rule.pattern in (LITERAL, PREFIXED) and all((rule.name, rule.principal, rule.host))
    return exact and rule.permission == DENY and rule.operation in Denied.__members__


class _Once:
    """Makes the change over the first connection that is open; over others it does nothing."""

    def __init__(self, rules: Sequence[Acl], change: _Change) -> None:
        self._rules = rules
        self._change = change
        self._first = Lock()
        self.began = False
        self.made: dict[Acl, wire.Changed] = {}

    def __call__(self, opened: BrokerSocket) -> bool:
        """Whether this was the connection, and all went through."""
        if not self._first.acquire(blocking=False):
            return False
        self.began = True
        for chunk in in_chunks(self._rules, _CHUNK):
            made = opened.exchange(self._change.api, wire.write_acls(chunk), self._change.read)
            self.made |= zip(chunk, made, strict=True)
        return True


class _NotSent(Unavailable):
    """Nobody was there to take it: it is sent again."""


_NOT_SENT = _NotSent("not sent: no broker answered")


@dataclass(frozen=True, slots=True)
class SharedRules:
    """Implements `AclWriter` of `drctl.model.fencing` for the fences of one link.

    Attributes:
        link: its name.
    """

    writer: AclWriter
    reader: AclReader
    link: str

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Add these, signed; by rule None where it is there now, or why it is not."""
        signs = {rule: sign(rule, self.link) for rule in rules}
        answers = self.writer.deny((*signs.values(), *rules))
        return {rule: answers[rule] or answers[signs[rule]] for rule in rules}

    def restore(self, rules: Collection[Acl]) -> Mapping[Acl, Unavailable | None]:
        """Remove those of these on which no other link's fence rests; by rule why one stays."""
        signs = {rule: sign(rule, self.link) for rule in rules}
        unsigned = self.writer.restore(tuple(signs.values()))
        present = self.reader.acls()
        if isinstance(present, Unavailable):
            # A fence that is lifted from under another link is worse than one that stays.
            unknown = f"whether another link needs it is not known: {present.reason}"
            return dict.fromkeys(rules, Unavailable(unknown))
        others = rules_of_other_links(present.rules, self.link)
        kept = {
            rule: Unavailable(f"the fence of link {others[rule].link} rests on it")
            for rule in rules
            if rule in others
        }
        gone = self.writer.restore([rule for rule in rules if rule not in kept])
        return {**{rule: why or unsigned[signs[rule]] for rule, why in gone.items()}, **kept}


_PERMISSIONS = frozenset({"ALLOW", DENY})
_OPERATIONS = frozenset({"READ", "WRITE"})
_EVERY_TOPIC = "*"


class KafkaRuleWriter(_AclClient):
    """Implements `RuleWriter` of `drctl.model.repairs`; connects on first use.

    Both calls may be repeated. Each ends within `timeout_s` (and a moment).
    """

    def add(self, rules: Collection[Acl]) -> Answers:
        """Add these; by rule None where it is there now, or why it is not.

        Raises:
            ValueError: one of them is about everything, or leaves something open.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: the properties cannot be used for connections of our own.
        """
        return self._changed(rules, _CREATE, _grants, _OF_CLIENTS)

    def remove(self, rules: Collection[Acl]) -> Answers:
        """Remove exactly these; by rule None where it is gone now, or why it is not.

        Raises:
            ValueError, Unreachable, ConfigError: likewise.
        """
        return self._changed(rules, _DELETE, _grants, _OF_CLIENTS)


_OF_CLIENTS = "a rule of a client for some topics"


def _grants(rule: Acl) -> bool:
    exact = rule.pattern in (LITERAL, PREFIXED) and all(rule) and rule.name != _EVERY_TOPIC
    return exact and rule.permission in _PERMISSIONS and rule.operation in _OPERATIONS
