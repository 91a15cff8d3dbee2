"""The topic `__consumer_timestamps`, made where it is not there."""

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AdminClient,
    NewTopic,
)

from drctl.systems.kafka.connection import LOGGER
from drctl.systems.kafka.timestamps_settings import TimestampSettings
from drctl.wire.consumer_timestamps import TOPIC

_TIMEOUT_S = 10.0
_SILENT = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
    }
)
_CURE = (
    "make it with cleanup.policy=compact, or grant CREATE and DESCRIBE on it, or lower"
    " timestamps.topic.replication.factor"
)

# An AdminClient takes no properties of producers only.
_OF_PRODUCERS = frozenset(
    {
        *("acks", "request.required.acks", "compression.type", "compression.codec", "linger.ms"),
        *("compression.level", "batch.size", "batch.num.messages", "partitioner"),
        *("enable.idempotence", "retries", "message.send.max.retries", "message.timeout.ms"),
        *("delivery.timeout.ms", "queue.buffering.max.ms", "queue.buffering.max.messages"),
        *("queue.buffering.max.kbytes", "request.timeout.ms", "max.in.flight"),
        *(
            "max.in.flight.requests.per.connection",
            "transactional.id",
            "sticky.partitioning.linger.ms",
        ),
    }
)


def missing_topic(settings: TimestampSettings) -> str:
    """See that the topic is there; why it is not, in words for a person, or nothing.

    Asks for no topic by name, upon which brokers make any topic.
    """
    try:
        _ensure(settings)
    except KafkaException as failed:
        error = failed.args[0]
        text = error.str() if isinstance(error, KafkaError) else str(error)
        if isinstance(error, KafkaError) and error.code() in _SILENT:
            return f"no broker tells whether there is a topic {TOPIC}: {text}"
        return f"topic {TOPIC} is not there and could not be made: {text}; {_CURE}"
    return ""


def _ensure(settings: TimestampSettings) -> None:
    properties = {k: v for k, v in settings.producer.items() if k not in _OF_PRODUCERS}
    admin = AdminClient(properties, logger=LOGGER)
    if TOPIC in admin.list_topics(timeout=_TIMEOUT_S).topics:
        return
    new = NewTopic(
        TOPIC,
        settings.partitions,
        replication_factor=settings.replicas,
        config={"cleanup.policy": "compact"},
    )
    try:
        admin.create_topics([new], operation_timeout=_TIMEOUT_S)[TOPIC].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
