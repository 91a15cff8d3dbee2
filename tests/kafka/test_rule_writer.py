"""The writer of client rules refuses wildcard rules and rules that are not exact."""

import pytest

from drctl.kafka.acls import KafkaRuleWriter
from drctl.kafka.connection import Connection
from drctl.model.repairs import Acl

RULE = Acl("orders", "LITERAL", "User:app", "*", "WRITE", "ALLOW")


@pytest.mark.parametrize(
    "rule",
    [
        RULE._replace(name="*"),
        RULE._replace(name=""),
        RULE._replace(pattern="ANY"),
        RULE._replace(principal=""),
        RULE._replace(host=""),
        RULE._replace(operation="ALL"),
        RULE._replace(operation="ALTER"),
        RULE._replace(permission="ANY"),
        RULE._replace(resource="GROUP"),
        RULE._replace(resource="GROUP", operation="READ", name="*"),
        RULE._replace(resource="CLUSTER", operation="ALTER", name="kafka-cluster"),
        RULE._replace(resource="DELEGATION_TOKEN", operation="DESCRIBE"),
    ],
)
def test_a_wide_or_open_rule_is_refused_before_anything_is_sent(rule: Acl) -> None:
    with KafkaRuleWriter(
        Connection("b", {"bootstrap.servers": "127.0.0.1:1"}, timeout_s=0.2)
    ) as writer:
        for change in (writer.add, writer.remove):
            with pytest.raises(ValueError, match="not a client rule"):
                change([RULE, rule])
