"""The target names of a connector's topics: patterns, policy, transforms."""

import time
from collections.abc import Mapping

import pytest

from drctl.config.mirrors import arrives_as
from drctl.model.topology import Unavailable

MIRROR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
}
IDENTITY = {
    **MIRROR,
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
}
REPLICATOR = {"connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector"}
TRANSFORMS = "org.apache.kafka.connect.transforms"


def routed(regex: str, replacement: str, **more: str) -> dict[str, str]:
    return {
        **IDENTITY,
        "transforms": "one",
        "transforms.one.type": f"{TRANSFORMS}.RegexRouter",
        "transforms.one.regex": regex,
        "transforms.one.replacement": replacement,
        **{f"transforms.one.{key}": value for key, value in more.items()},
    }


@pytest.mark.parametrize(
    ("config", "topic", "expected"),
    [
        (MIRROR, "orders", "a.orders"),
        ({**MIRROR, "replication.policy.separator": "_"}, "orders", "a_orders"),
        (MIRROR, "b.orders", None),
        (MIRROR, "c.b.orders", None),
        (MIRROR, "orders.b", "a.orders.b"),
        ({**MIRROR, "topics": "x,ord.*"}, "orders", "a.orders"),
        ({**MIRROR, "topics": "x"}, "orders", None),
        ({**MIRROR, "topics.exclude": "ord.*"}, "orders", None),
        (MIRROR, "__consumer_offsets", None),
        (MIRROR, "mm2-offset-syncs.a.internal", None),
        (IDENTITY, "b.orders", "b.orders"),
        (routed(r"b\.(.*)", "$1"), "b.orders", "orders"),
        (routed(r"b\.(.*)", "x\\$1"), "orders", "orders"),
        (routed(r"b\.(.*)", "x"), "b.orders", "x"),
        (routed(r"(b)\.(.*)", "$2-$1"), "b.orders", "orders-b"),
        (routed(r"b", "c"), "b.orders", "b.orders"),
        ({**IDENTITY, "transforms": "f", "transforms.f.type": f"{TRANSFORMS}.Filter"}, "x", "x"),
        ({**REPLICATOR, "topic.whitelist": "a.b,orders"}, "orders", "orders"),
        ({**REPLICATOR, "topic.whitelist": "a.b"}, "a-b", None),
        ({**REPLICATOR, "topic.regex": "o.*", "topic.blacklist": "orders"}, "orders", None),
        (
            {**REPLICATOR, "topic.regex": ".*", "topic.rename.format": "${topic}.copy"},
            "orders",
            "orders.copy",
        ),
    ],
)
def test_the_target_name(config: Mapping[str, str], topic: str, expected: str | None) -> None:
    assert arrives_as(config, topic) == expected


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({**MIRROR, "replication.policy.class": "com.example.Policy"}, "Policy"),
        ({**MIRROR, "topic.filter.class": "com.example.Mine"}, "com.example.Mine"),
        ({**MIRROR, "topics": "(?<n>x)"}, "cannot be evaluated"),
        ({**MIRROR, "replication.policy.separator": ""}, "separator is empty"),
        (routed("x", "y", predicate="p"), "transforms.one.predicate"),
        (routed("(.*)", r"\$1"), "specific to Java"),
        (routed("(.*)", "$2"), "specific to Java"),
        (routed("x", "y", type="com.example.Route"), "com.example.Route"),
        (routed("x", "y", type=f"{TRANSFORMS}.TimestampRouter"), "TimestampRouter"),
    ],
)
def test_names_known_only_to_the_connector_are_reported(
    config: Mapping[str, str], why: str
) -> None:
    found = arrives_as(config, "orders")
    assert isinstance(found, Unavailable)
    assert why in found.reason


@pytest.mark.parametrize(
    "pattern",
    [
        "(.+)+!",
        "(a|a)*$",
        "(?:o{1,9}){1,99}!",
        ".*.*.*.*.*.*!",
        "o?" * 30 + "o" * 30,
        "(o|oo)" * 30 + "!",
        "a{99999999999}",
        "(" * 5_000,
        "[",
        "*.bytes",
        "",
    ],
)
def test_a_slow_pattern_does_not_block(pattern: str) -> None:
    """Evaluating a pattern fails or ends at once."""
    began = time.monotonic()
    for config in ({**MIRROR, "topics": pattern}, routed(pattern, "x")):
        found = arrives_as(config, "o" * 249)
        assert isinstance(found, Unavailable) or found in (None, "o" * 249)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "pattern",
    [
        r".*[\-\.]internal",
        r".*\.replica",
        "__.*",
        "(orders|audit)\\.(eu|us)\\.[a-z*+(]{2}",
        "a(b)?",
    ],
)
def test_common_patterns_are_evaluated(pattern: str) -> None:
    assert not isinstance(arrives_as({**MIRROR, "topics": pattern}, "orders"), Unavailable)
