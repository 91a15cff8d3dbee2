"""The ACLs of one cluster's topics, as the cluster tells them and as each broker applies them.

librdkafka could ask this, and must not: from a user that may not see ACLs it returns an empty list
in place of the refusal.
"""

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from time import sleep

from confluent_kafka import KafkaError
from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined, unused-ignore]

from drctl.model.acls import Acl, Acls
from drctl.model.fencing import DENY, Obedience
from drctl.model.topology import Unavailable
from drctl.systems.closing import Closing
from drctl.systems.kafka.broker_socket import BrokerSocket
from drctl.systems.kafka.brokers import Brokers, Hopeless, Task, addresses_in
from drctl.systems.kafka.connection import Connection
from drctl.systems.kafka.deadline import Deadline
from drctl.wire.acls import DESCRIBE_ACLS, Listed, describe_acls, read_acls

# All brokers have the same rules: a few are asked, in case one of them hangs.
_ASKED = 3
# New rules are applied within some 30 ms, and on a busy cluster within a second.
_PAUSE_S = 0.02
_RETRY_S = 0.1

Missing = Callable[[frozenset[Acl]], str]
"""What is not as wanted among a broker's rules, in words; empty where all is."""


class KafkaAclReader(Closing):
    """Implements `AclReader` of `drctl.model.fencing`.

    Connects on first use. Every call ends within `timeout_s` (and a moment).
    """

    def __init__(self, name: str, properties: Mapping[str, str], *, timeout_s: float = 10) -> None:
        self._connection = Connection(name, properties, timeout_s)
        self._brokers = Brokers(self._connection)

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
        listed = _best(self._brokers.ask(tasks, some, deadline, enough=_is_told).values())
        if isinstance(listed, Unavailable):
            return listed
        if listed.error == KafkaError.SECURITY_DISABLED:
            return Acls(enforced=False)
        if listed.error:
            return Unavailable(self._connection.redacted(_reason(listed)))
        return Acls(enforced=True, rules=tuple(sorted(listed.rules)))

    def obeyed(self, rules: Collection[Acl], topics: Collection[str]) -> Obedience:
        """Whether each broker has all of these denying rules; waits for it up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        wanted = frozenset(rules)

        def missing(seen: frozenset[Acl]) -> str:
            return _counted(wanted - seen, len(wanted), "not there yet")

        return self._watched(wanted, topics, missing)

    def lifted(self, rules: Collection[Acl], topics: Collection[str]) -> Obedience:
        """Whether each broker has none of them any more; waits for it up to the deadline.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for connections of our own.
        """
        unwanted = frozenset(rules)

        def left(seen: frozenset[Acl]) -> str:
            return _counted(unwanted & seen, len(unwanted), "still there")

        return self._watched(unwanted, topics, left)

    def prepare(self) -> None:
        """Open the client, which asks nobody yet.

        Raises:
            ConfigError: librdkafka does not take the properties.
        """
        self._connection.admin()

    def close(self) -> None:
        """Release connections; may be called again."""
        self._connection.close()

    def _watched(
        self, rules: Collection[Acl], topics: Collection[str], missing: Missing
    ) -> Obedience:
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
            pending = {n for n in pending if _lost(found[n])}
            self._connection.wait(min(_RETRY_S, deadline.remaining) if pending else 0)
            if deadline.expired:
                break
        told = {node: watches[node].said(why) for node, why in found.items()}
        told |= dict.fromkeys(_unseen(metadata, topics), _UNSEEN)
        return Obedience(told, len(rules), sum(watch.looks for watch in watches.values()))


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
            listed = opened.exchange(DESCRIBE_ACLS, describe_acls(DENY), read_acls)
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


def _list(opened: BrokerSocket) -> Listed:
    return opened.exchange(DESCRIBE_ACLS, describe_acls(), read_acls)


def _best(answers: Collection[Listed | Unavailable]) -> Listed | Unavailable:
    """Rules before a refusal, and a refusal before silence."""
    told = [answer for answer in answers if isinstance(answer, Listed)]
    whole = [answer for answer in told if _is_told(answer)]
    return next(iter((*whole, *told, *answers)), Unavailable("no broker is there"))


def _is_told(listed: Listed) -> bool:
    return not listed.error


def _lost(answer: Unavailable | None) -> bool:
    return answer is not None and not isinstance(answer, Hopeless)


def _reason(listed: Listed) -> str:
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
