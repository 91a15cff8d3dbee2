"""Adds and removes rules that deny topics to principals; touches no other rule.

Any broker passes a change on to the controller. librdkafka picks one, which may be the one that
stalls, and then waits for it; and a change that lies in its buffers is made when it goes on, which
may be after it was taken back. Here a change goes only to a broker that has just answered.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import NamedTuple

from confluent_kafka import KafkaError

from drctl.model.acls import Acl
from drctl.model.errors import Unreachable
from drctl.model.fencing import DENY, LITERAL, PREFIXED, Denied
from drctl.model.topology import Unavailable
from drctl.offsets.answers import Unanswered
from drctl.systems.closing import Closing
from drctl.systems.kafka.broker_socket import BrokerSocket
from drctl.systems.kafka.brokers import Brokers, Hopeless
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.systems.kafka.requests import in_chunks, pauses
from drctl.wire.acls import (
    CREATE_ACLS,
    DELETE_ACLS,
    Changed,
    create_acls,
    delete_acls,
    read_created,
    read_deleted,
)
from drctl.wire.broker_requests import Api
from drctl.wire.cursor import Cursor

# A controller takes 10,000 changes in one call; what fails, fails in small parts.
_CHUNK = 500
_ASKED = 5
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
    write: Callable[[Iterable[Acl]], bytes]
    read: Callable[[Cursor], Sequence[Changed]]


CREATE = _Change(CREATE_ACLS, create_acls, read_created)
DELETE = _Change(DELETE_ACLS, delete_acls, read_deleted)


class KafkaAclWriter(Closing):
    """Implements `AclWriter` of `drctl.model.fencing`.

    Both calls may be repeated: what is there is not added twice, what is gone is gone. Each ends
    within `timeout_s` (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._brokers = Brokers(self._connection)

    def deny(self, rules: Collection[Acl]) -> Answers:
        """Add these; by rule None where it is there now, or why it is not.

        Raises:
            ValueError: one of them is no exact rule that denies reading or writing.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: the properties cannot be used for connections of our own.
        """
        return self._done(rules, CREATE)

    def restore(self, rules: Collection[Acl]) -> Answers:
        """Remove exactly these; by rule None where it is gone now, or why it is not.

        Raises:
            ValueError: one of them is no exact rule that denies reading or writing.
            Unreachable: no broker answered within the deadline; nothing was sent.
            ConfigError: the properties cannot be used for connections of our own.
        """
        return self._done(rules, DELETE)

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def _require(self, rule: Acl) -> None:
        """Raises ValueError for a rule that is none of this writer's business."""
        _require_ours(rule)

    def _done(self, rules: Collection[Acl], change: _Change) -> Answers:
        once = tuple(dict.fromkeys(rules))
        for rule in once:
            self._require(rule)
        found: dict[Acl, Unavailable | None] = dict.fromkeys(once, _NOT_SENT)
        deadline, waits = self._connection.deadline(), pauses()
        pending = list(once)
        for timeout in deadline.attempts():
            if not pending:
                break
            try:
                found |= self._attempt(pending, change, deadline.sooner(timeout))
            except Unreachable:
                if all(isinstance(found[rule], _NotSent) for rule in once):
                    raise
            pending = [rule for rule in pending if _open(found[rule])]
            self._connection.wait(min(next(waits), deadline.remaining) if pending else 0)
        return found

    def _attempt(self, rules: Sequence[Acl], change: _Change, deadline: Deadline) -> Answers:
        """Everything, by the first broker that lets us in."""
        addresses = self._brokers.addresses(deadline)
        some = dict(islice(sorted(addresses.items()), _ASKED))
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

    def _answer(self, made: Changed) -> Unavailable | None:
        if not made.error:
            return None
        if made.error == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return Unavailable("this user may not change ACLs; grant ALTER on the cluster")
        if made.error == KafkaError.SECURITY_DISABLED:
            return Unavailable("the cluster has no authorizer: it enforces no ACLs")
        text = self._connection.redacted(made.text or KafkaError(made.error).str())
        return Unanswered(text) if made.error in _AGAIN else Unavailable(text)


class _Once:
    """Makes the change over the first connection that is open; over others it does nothing."""

    def __init__(self, rules: Sequence[Acl], change: _Change) -> None:
        self._rules = rules
        self._change = change
        self._first = Lock()
        self.began = False
        self.made: dict[Acl, Changed] = {}

    def __call__(self, opened: BrokerSocket) -> bool:
        """Whether this was the connection, and all went through."""
        if not self._first.acquire(blocking=False):
            return False
        self.began = True
        for chunk in in_chunks(self._rules, _CHUNK):
            made = opened.exchange(self._change.api, self._change.write(chunk), self._change.read)
            self.made |= zip(chunk, made, strict=True)
        return True


class _NotSent(Unavailable):
    """Nobody was there to take it: it is sent again."""


_NOT_SENT = _NotSent("not sent: no broker answered")


def _open(answer: Unavailable | None) -> bool:
    """Whether it is worth another attempt; each rule may be added, or removed, more than once."""
    return isinstance(answer, Unanswered | _NotSent)


def _require_ours(rule: Acl) -> None:
    """A rule that says less than all of this would, in a deletion, match rules of others."""
    exact = rule.pattern in (LITERAL, PREFIXED) and all((rule.name, rule.principal, rule.host))
    if not exact or rule.permission != DENY or rule.operation not in Denied.__members__:
        raise ValueError(f"not a rule of a fence: {rule}")
