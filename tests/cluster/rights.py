"""What the lab's application may do with topics that the lab knows nothing of."""

from confluent_kafka.admin import (  # type: ignore[attr-defined, unused-ignore]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.lab.cluster_under_test import ClusterUnderTest

_LITERAL = ResourcePatternType.LITERAL


def allow(cluster: ClusterUnderTest, user: str, topic: str) -> None:
    """Let it read and write a topic."""
    operations = (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)
    bindings = [
        AclBinding(
            ResourceType.TOPIC, topic, _LITERAL, f"User:{user}", "*", each, AclPermissionType.ALLOW
        )
        for each in operations
    ]
    for done in cluster.admin.create_acls(bindings).values():
        done.result()


def forget(cluster: ClusterUnderTest, topic: str) -> None:
    """Take every rule of a topic away, those that denied included."""
    every = AclBindingFilter(
        ResourceType.TOPIC, topic, _LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for done in cluster.admin.delete_acls([every]).values():
        done.result()
