"""What the lab's application may do with topics that the lab knows nothing of."""

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from drctl.lab.waiting import Patience
from tests.lab.cluster_under_test import ClusterUnderTest

_LITERAL = ResourcePatternType.LITERAL


def allow(cluster: ClusterUnderTest, user: str, topic: str) -> None:
    """Let it read and write a topic; it is known when this returns."""
    operations = (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)
    bindings = [
        AclBinding(
            ResourceType.TOPIC, topic, _LITERAL, f"User:{user}", "*", each, AclPermissionType.ALLOW
        )
        for each in operations
    ]
    for done in cluster.admin.create_acls(bindings).values():
        done.result()
    mine = AdminClient(cluster.properties(user))

    def known() -> bool:
        asked = mine.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
        try:
            found = asked[topic].result().authorized_operations
        except KafkaException as refused:
            # Who may not know of a topic is not told that there is none.
            return bool(refused.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
        return set(operations) <= set(found or ())

    assert Patience.of(60).wait_until(known), f"{user} may not use {topic} on {cluster.name}"


def forget(cluster: ClusterUnderTest, topic: str) -> None:
    """Take every rule of a topic away, those that denied included."""
    every = AclBindingFilter(
        ResourceType.TOPIC, topic, _LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for done in cluster.admin.delete_acls([every]).values():
        done.result()
