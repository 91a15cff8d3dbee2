"""Aborts transactions of the source that would block the drain.

Their records stay invisible to read_committed consumers, as if their producers had aborted them.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from drctl.checks.check import several
from drctl.checks.source import BLOCKING, all_open, blocking, described
from drctl.engine.kind import Description, Facts, Permanent, Readback, State, Trait, failed_items
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import ConfigError, Refused, Unreachable
from drctl.model.health import BlockingTransaction
from drctl.model.text import plural
from drctl.model.topology import TopicPartition, Unavailable


@dataclass(frozen=True, slots=True)
class AbortSettings:
    """Settings from the plan.

    Attributes:
        reason: why the precheck is overridden; if empty, nothing may be aborted.
    """

    cluster: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class AbortIntent:
    """The transactions to abort.

    Attributes:
        at_ms: when they were found.
        unread: partitions that could not be read, each with the reason.
    """

    cluster: str
    at_ms: int
    transactions: tuple[BlockingTransaction, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortFacts:
    """The transactions that have ended, described."""

    ended: tuple[str, ...]


class AbortTransactions(Permanent[AbortSettings, AbortIntent, AbortFacts]):
    """Aborts transactions that hang or have been idle for at least 5 minutes."""

    name = "abort-transactions"
    traits = Trait.CHANGES | Trait.ENDS_TRANSACTIONS | Trait.IRREVERSIBLE | Trait.RECHECKED

    def describe(self, settings: AbortSettings) -> Description:
        """Describe the step for plans and reports."""
        cluster = settings.cluster
        return Description(
            f"abort transactions on {cluster} that hang or have been idle for 5 minutes",
            "none of them is open, and the last stable offset has moved past each",
            "none: aborted transactions stay aborted",
            "producers of aborted transactions are fenced: they must be restarted, and write the"
            " records again",
        )

    def check(self, settings: AbortSettings, facts: Facts, reader: LinkReader) -> AbortIntent:
        """Find the transactions.

        Raises:
            Refused: there are such transactions, and the precheck is not overridden; or it is not
                known which coordinator would end one of them.
            Unreachable: the cluster did not respond.
        """
        cluster, now_ms = settings.cluster, int(time.time() * 1000)
        found = reader.health(cluster).open_transactions(_places(cluster, reader))
        there = blocking(found, now_ms)
        if there and not settings.reason:
            raise Refused(
                f"{plural(len(there), 'transaction')} on {cluster} would have to be aborted:"
                f" {several(described(each, now_ms) for each in there)}",
                f"stop their producers; or let drctl abort them: --override {BLOCKING}=REASON",
            )
        if unknown := [each for each in there if each.hanging is None]:
            raise Refused(
                f"cannot tell whether a coordinator knows {described(unknown[0], now_ms)}: not"
                f" every broker of {cluster} answered, or drctl's user may not see all"
                " transactions",
                "grant drctl's user DESCRIBE on all transactional ids, and start the brokers",
            )
        unread = (f"{p}: {e.reason}" for p, e in found.items() if isinstance(e, Unavailable))
        return AbortIntent(cluster, now_ms, there, tuple(unread))

    def apply(self, intent: AbortIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Abort the transactions that have not changed since they were found."""
        if not intent.transactions:
            return ()
        answers = writer.transactions(intent.cluster).abort(intent.transactions)
        return failed_items(answers, lambda each: described(each, intent.at_ms))

    def verify(self, intent: AbortIntent, reader: LinkReader) -> Readback[AbortFacts]:
        """Verify that none of the transactions is open or holds back a last stable offset."""
        cluster = intent.cluster
        unread = f"; {plural(len(intent.unread), 'partition')} could not be read"
        suffix = unread if intent.unread else ""
        if not intent.transactions:
            message = f"no transaction on {cluster} hangs or has been idle for 5 minutes{suffix}"
            return Readback(State.DONE, message, AbortFacts(()), intent.unread)
        still = _still_open(intent, reader)
        if still:
            items = tuple(f"{described(each, intent.at_ms)}: {why}" for each, why in still)
            return Readback(State.WAITING, f"not aborted: {several(items)}", items=items)
        ended = _in_words(intent.transactions, intent)
        message = f"aborted on {cluster}: {several(ended)}{suffix}"
        return Readback(State.DONE, message, AbortFacts(ended), intent.unread)

    def verify_undo(self, intent: AbortIntent, reader: LinkReader) -> Readback[AbortFacts]:
        """Report which transactions stay aborted."""
        still = {each for each, _ in _still_open(intent, reader)} if intent.transactions else set()
        ended = _in_words((each for each in intent.transactions if each not in still), intent)
        if not ended:
            return Readback(State.DONE, "no transaction was aborted")
        message = f"aborted transactions stay aborted: {several(ended)}"
        return Readback(State.DONE, message, AbortFacts(ended), leaves_changes=True)


def blocked_by_transactions(cluster: str, reader: LinkReader) -> str:
    """The open transactions of the link, of any age, as the end of a message; may be empty."""
    if not cluster:
        return ""
    try:
        found = reader.health(cluster).open_transactions(_places(cluster, reader))
    except (Unreachable, ConfigError):
        return ""
    now_ms = int(time.time() * 1000)
    named = several(described(each, now_ms) for each in all_open(found))
    return f"; transactions are open on {cluster}: {named}" if named else ""


def _in_words(found: Iterable[BlockingTransaction], intent: AbortIntent) -> tuple[str, ...]:
    return tuple(described(each, intent.at_ms) for each in found)


def _places(cluster: str, reader: LinkReader) -> list[TopicPartition]:
    there = reader.cluster_reader(cluster).overview().partitions
    return [TopicPartition(topic, n) for topic in reader.topics() for n in there.get(topic, ())]


def _still_open(intent: AbortIntent, reader: LinkReader) -> list[tuple[BlockingTransaction, str]]:
    """Transactions that are still open, or may be, each with the reason."""
    places = list(dict.fromkeys(each.place for each in intent.transactions))
    now = reader.health(intent.cluster).open_transactions(places)
    logs = reader.cluster_reader(intent.cluster).offsets(places)
    found = []
    for each in intent.transactions:
        there, log = now.get(each.place, ()), logs[each.place]
        if isinstance(there, Unavailable) or isinstance(log, Unavailable):
            why = there if isinstance(there, Unavailable) else log
            found.append((each, why.reason if isinstance(why, Unavailable) else ""))
        elif any(map(each.is_still, there)):
            found.append((each, "it is still open"))
        elif log.last_stable <= each.since and all(other.since > each.since for other in there):
            found.append((each, f"the last stable offset is still {log.last_stable}"))
    return found
