"""What applications import."""

import drctl.consumer
from drctl.kafka.timestamps_consumer import TimestampsConsumer


def test_the_consumer_of_the_documentation() -> None:
    assert drctl.consumer.__all__ == ["TimestampsConsumer"]
    assert drctl.consumer.TimestampsConsumer is TimestampsConsumer
