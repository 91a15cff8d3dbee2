"""ACLs of topics that the lab does not know."""

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
from tests.cluster.link_command import soon
from tests.lab.cluster_under_test import ClusterUnderTest

_LITERAL = ResourcePatternType.LITERAL
_ALLOW, _DENY, _ANY = AclPermissionType.ALLOW, AclPermissionType.DENY, AclPermissionType.ANY
USES = (AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE)


def rule(
    user: str,
    name: str,
    operation: AclOperation,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    pattern: ResourcePatternType = _LITERAL,
    deny: bool = False,
) -> AclBinding:
    permission = _DENY if deny else _ALLOW
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, permission)


def about(
    topic: str | None,
    user: str | None = None,
    *,
    pattern: ResourcePatternType = _LITERAL,
    permission: AclPermissionType = _ANY,
) -> AclBindingFilter:
    """Return all ACLs that name this topic."""
    principal = f"User:{user}" if user else None
    where = ResourceType.TOPIC, topic, pattern, principal, None
    return AclBindingFilter(*where, AclOperation.ANY, permission)


def grant(cluster: ClusterUnderTest, *rules: AclBinding) -> None:
    for done in cluster.admin.create_acls([*rules]).values():
        done.result()


def revoke(cluster: ClusterUnderTest, *filters: AclBindingFilter) -> int:
    """Remove ACLs; return how many."""
    return sum(len(done.result()) for done in cluster.admin.delete_acls([*filters]).values())


def delete_acls(cluster: ClusterUnderTest, *rules: AclBinding) -> None:
    fields = ("restype", "name", "resource_pattern_type", "principal", "host", "operation")
    given = [[getattr(each, field) for field in fields] for each in rules]
    revoke(cluster, *(AclBindingFilter(*each, _ANY) for each in given))


def rules_of(cluster: ClusterUnderTest, topic: str) -> set[str]:
    found = cluster.admin.describe_acls(about(topic)).result()
    return {f"{each.permission_type.name} {each.operation.name}" for each in found}


def allow(cluster: ClusterUnderTest, user: str, topic: str) -> None:
    """Allow a user to read and write a topic; in effect on return."""
    grant(cluster, *(rule(user, topic, each) for each in USES))
    _await_rights(cluster, user, topic, USES)


def _await_rights(
    cluster: ClusterUnderTest, user: str, topic: str, operations: tuple[AclOperation, ...]
) -> None:
    """Wait until a broker confirms this to the user."""
    mine = AdminClient(cluster.properties(user))

    def known() -> bool:
        asked = mine.describe_topics(TopicCollection([topic]), include_authorized_operations=True)
        try:
            found = asked[topic].result().authorized_operations
        except KafkaException as refused:
            # Without DESCRIBE the broker reports an authorization error, not an unknown topic.
            return bool(refused.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
        return set(operations) <= set(found or ())

    soon(known, f"{user} may not use {topic} on {cluster.name}")


def lift(cluster: ClusterUnderTest, user: str, topic: str) -> None:
    """Remove all denials of a user on the topic, as an engineer who does not know drctl.

    The user can write again on return.
    """
    assert remove_denials(cluster, user, topic), f"{user} was not denied access to {topic}"
    _await_rights(cluster, user, topic, (AclOperation.WRITE,))


def remove_denials(cluster: ClusterUnderTest, user: str, topic: str) -> int:
    """Remove deny ACLs; return how many."""
    return revoke(cluster, about(topic, user, permission=_DENY))


def denials(cluster: ClusterUnderTest, *names: str) -> int:
    """Return the number of deny ACLs on these topics and groups."""
    with KafkaAclReader(Connection(cluster.name, cluster.properties())) as reader:
        found = reader.acls()
    rules = getattr(found, "rules", ())
    return sum(1 for rule in rules if rule.name in names and rule.permission == "DENY")


def forget(cluster: ClusterUnderTest, *topics: str) -> None:
    """Remove all ACLs of these, including deny ACLs."""
    revoke(cluster, *map(about, topics))
