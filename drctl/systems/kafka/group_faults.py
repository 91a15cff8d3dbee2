"""What a group's coordinator answers instead of a value."""

from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError

from drctl.systems.kafka.faults import Fault

_MOVING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
_OCCUPIED = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.GROUP_SUBSCRIBED_TO_TOPIC,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
# Refused here, before anything was sent; every other code of librdkafka's own may hide a write.
_NEVER_SENT = frozenset(
    {KafkaError._INVALID_ARG, KafkaError._UNSUPPORTED_FEATURE, KafkaError._NOT_CONFIGURED}
)
_NO_ANSWER = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        # Also what a coordinator says whose own write was appended and not replicated in time.
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.UNKNOWN,
    }
)


@dataclass(frozen=True, slots=True)
class Moving(Fault):
    """The group is about to have another coordinator: asking again helps."""

    @property
    def retried(self) -> bool:
        """Always."""
        return True


def settling(answer: Any) -> Any:
    """The same answer; a fault that passes is one that is asked again."""
    if isinstance(answer, Fault) and moving(answer):
        return Moving(answer.code, answer.text)
    return answer


def moving(fault: Fault) -> bool:
    """Whether the group is about to have another coordinator."""
    return fault.code in _MOVING


def occupied(fault: Fault) -> bool:
    """Whether the coordinator refuses because the group has members."""
    return fault.code in _OCCUPIED


def unanswered(fault: Fault) -> bool:
    """Whether a write may have happened, or may happen yet."""
    return fault.code in _NO_ANSWER or (fault.code < 0 and fault.code not in _NEVER_SENT)


def reason(group: str, fault: Fault) -> str:
    """Why, for a person."""
    if fault.code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return f"not authorized for group {group}"
    return fault.text
