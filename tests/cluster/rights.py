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

from drctl.kafka.acls import KafkaAclReader
from drctl.kafka.connection import Connection
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
    _await_rights(cluster, user, topic, operations)


def _await_rights(
    cluster: ClusterUnderTest, user: str, topic: str, operations: tuple[AclOperation, ...]
) -> None:
    """Until a broker that is asked by the user says so."""
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


def lift(cluster: ClusterUnderTest, user: str, topic: str) -> None:
    """Remove what denies it anything there, as an engineer does who knows nothing of drctl.

    It may write again when this returns.
    """
    assert remove_denials(cluster, user, topic), f"nothing keeps {user} from {topic}"
    _await_rights(cluster, user, topic, (AclOperation.WRITE,))


def remove_denials(cluster: ClusterUnderTest, user: str, topic: str) -> int:
    """How many rules were removed."""
    denying = AclBindingFilter(
        *(ResourceType.TOPIC, topic, _LITERAL, f"User:{user}", None),
        *(AclOperation.ANY, AclPermissionType.DENY),
    )
    return sum(len(done.result()) for done in cluster.admin.delete_acls([denying]).values())


def denials(cluster: ClusterUnderTest, topic: str) -> int:
    """How many rules keep somebody from a topic."""
    with KafkaAclReader(Connection(cluster.name, cluster.properties())) as reader:
        found = reader.acls()
    rules = getattr(found, "rules", ())
    return sum(1 for rule in rules if rule.name == topic and rule.permission == "DENY")


def forget(cluster: ClusterUnderTest, topic: str) -> None:
    """Take every rule of a topic away, those that denied included."""
    every = AclBindingFilter(
        ResourceType.TOPIC, topic, _LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for done in cluster.admin.delete_acls([every]).values():
        done.result()
