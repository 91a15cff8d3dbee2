"""`__consumer_timestamps` of a cluster that tests share."""

from confluent_kafka import KafkaError, KafkaException

from drctl.formats.consumer_timestamps import TOPIC
from drctl.lab.waiting import Patience
from tests.lab.cluster_under_test import ClusterUnderTest


def remove_topic(cluster: ClusterUnderTest) -> None:
    """Delete the topic, and wait until it is gone."""
    try:
        cluster.admin.delete_topics([TOPIC])[TOPIC].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise
    assert Patience.of(30).wait_until(
        lambda: TOPIC not in cluster.admin.list_topics(timeout=20).topics
    )
