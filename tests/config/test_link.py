"""Which topics a link carries, and their names on the other cluster."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.config.link import Link
from drctl.config.loading import read
from drctl.model.errors import ConfigError, UsageError


def link(topics: str, rest: str = "", replicator: str = "{kind: none}") -> Link:
    text = (
        "clusters: {a: {bootstrap: 'a:1'}, b: {bootstrap: 'b:1'}}\n"
        f"links: {{main: {{from: a, to: b, topics: {topics}, replicator: {replicator}, {rest}}}}}\n"
    )
    return read(text, Path("x.yaml")).link()


NAMES = ("orders", "orders-2", "payments", "payments-eu", "__consumer_offsets", "_schemas")


@pytest.mark.parametrize(
    ("topics", "rest", "carried"),
    [
        ("[orders]", "", ("orders",)),
        ("[orders, 'payments-.*']", "", ("orders", "payments-eu")),
        ("['.*']", "", ("_schemas", "orders", "orders-2", "payments", "payments-eu")),
        ("['.*', __consumer_offsets]", "exclude: ['pay.*', '_s']", NAMES[-2:][:1] + NAMES[-1:]),
        ("['orders|payments']", "", ("orders", "payments")),
        ("['(?i)ORDERS']", "", ("orders",)),
        ("['__.*']", "", ()),
        ("['(a)\\\\1', '(orders)-.']", "", ("orders-2",)),
    ],
)
def test_topics(topics: str, rest: str, carried: tuple[str, ...]) -> None:
    found = link(topics, rest).topics_of(NAMES)
    if "exclude" in rest:
        assert found == ("__consumer_offsets", "_schemas", "orders", "orders-2")
    else:
        assert found == carried


def test_topics_that_mirrormaker_never_replicates_are_ignored() -> None:
    own = ("heartbeats", "mm2-offset-syncs.b.internal", "x.checkpoints.internal", "t.replica")
    mirrored = link("['.*']", replicator="{kind: mirrormaker2}")
    copied = ("orders", "orders-internal", "orders.internal")
    assert mirrored.topics_of((*own, *copied)) == copied
    assert link("['.*']").topics_of(own) == tuple(sorted(own))
    named = link("[heartbeats, '.*']", replicator="{kind: mirrormaker2}")
    assert named.topics_of(own) == ("heartbeats",)


@pytest.mark.slow
@settings(deadline=None)
@given(st.text(st.sampled_from("abc.-_${}\\1"), max_size=20))
def test_names_on_the_target(topic: str) -> None:
    assert link("[a]", replicator="{kind: mirrormaker2}").target_topic(topic) == topic
    renamed = link("[a]", replicator="{kind: mirrormaker2, rename: 'p.${topic}.${topic}'}")
    assert renamed.target_topic(topic) == f"p.{topic}.{topic}"


def test_groups() -> None:
    assert link("[a]").carries_group("any")
    assert not link("[a]", "groups: ['x.*']").carries_group("any")
    assert not link("[a]", "translate: false").carries_group("any")


TWO = (
    "clusters: {a: {bootstrap: 'a:1'}, b: {bootstrap: 'b:1'}}\n"
    "links: {there: {from: a, to: b, topics: [x]}, back: {from: b, to: a, topics: [x]}}\n"
)


@pytest.mark.parametrize(
    ("text", "name", "message", "hint"),
    [
        (TWO, None, "x.yaml has 2 links: choose one", "add --link there or --link back"),
        (TWO, "their", "x.yaml has no link 'their'", "did you mean 'there'?"),
        (TWO, "q", "x.yaml has no link 'q'", "known: 'there' or 'back'"),
        (TWO.split("\n")[0], None, "x.yaml has no links", "add a link under `links:`"),
    ],
)
def test_choosing_a_link(text: str, name: str | None, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(text, Path("x.yaml")).link(name)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_source_and_target_of_a_link() -> None:
    found = read(TWO, Path("x.yaml")).link("back")
    assert (found.name, found.source, found.target) == ("back", "b", "a")
    assert found.source_config.client_properties({}) == {"bootstrap.servers": "b:1"}


def test_a_link_needs_two_clusters() -> None:
    config = read(TWO, Path("x.yaml"))
    alone = config.over(None, "b")
    assert (alone.name, alone.source, alone.target) == ("cluster:b", "b", "b")
    assert alone.carries("orders")
    assert alone.carries_group("billing")
    assert config.over("back", None) == config.link("back")
    with pytest.raises(ConfigError):
        read(TWO.replace("there:", "'cluster:b':"), Path("x.yaml"))
    with pytest.raises(UsageError, match="cannot be combined"):
        config.over("back", "b")
    with pytest.raises(UsageError, match="no cluster 'c'"):
        config.over(None, "c")
