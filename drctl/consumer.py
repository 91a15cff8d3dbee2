"""For applications: a Python consumer whose position Confluent Replicator and drctl can translate.

    from drctl.consumer import TimestampsConsumer

It takes the place of `confluent_kafka.Consumer`; see docs/howto/python-consumer.md.
"""

from drctl.kafka.timestamps_consumer import TimestampsConsumer

__all__ = ["TimestampsConsumer"]
