"""Reverse replication of a link: what replicates back, and the settings of both directions."""

from pathlib import Path
from typing import cast

import pytest

from drctl.app.link_writer import ClusterLinkWriter
from drctl.app.run_adapters import journal_places
from drctl.config.link import Link
from drctl.config.loading import read
from drctl.config.reverse_link import reversed_link
from drctl.kafka.acls import SharedRules
from drctl.model.errors import ConfigError

HEAD = "clusters: {a: {bootstrap: 'x:1'}, b: {bootstrap: 'y:1'}}\nlinks:\n"
LINK = "  main: {{from: a, to: b, topics: [t], {more}, replicator: {{kind: {kind}{rest}}}}}\n"
CONNECT = ", connect: 'http://here:1', connectors: {source: go}"
BACK = ", reverse: {connect: 'http://there:1', connectors: {source: back}}"


def reverse_link(kind: str, rest: str, more: str = "groups: [g]", others: str = "") -> Link:
    text = HEAD + LINK.format(kind=kind, rest=rest, more=more) + others
    config = read(text, Path("drctl.yaml"))
    return reversed_link(config.link("main"), map(config.link, config.links))


def test_every_setting_is_reversed() -> None:
    found = reverse_link("mirrormaker2", CONNECT + BACK)
    assert (found.name, found.configured) == ("main-back", "main")
    assert (found.source, found.target) == ("b", "a")
    assert found.carries("t")
    assert found.carries_group("g")
    replicator = found.settings.replicator
    assert replicator.connectors.source == "back"
    assert [str(each.shown) for each in replicator.connect or ()] == ["http://there:1"]
    assert replicator.reverse is not None
    assert replicator.reverse.connectors.source == "go"


def test_a_fence_command_belongs_to_one_cluster() -> None:
    acl = reverse_link("none", "", "fence: {method: acl, principals: ['User:x']}")
    assert acl.settings.fence.method == "acl"
    command = reverse_link("none", "", "fence: {method: command, command: [fence]}")
    assert command.settings.fence.method == "none"


def test_the_opposite_link_names_the_reverse_replicator() -> None:
    replicator = "{kind: mirrormaker2, connect: 'http://c:1', connectors: {source: other}}"
    other = f"  home: {{from: b, to: a, topics: [t], replicator: {replicator}}}\n"
    found = reverse_link("mirrormaker2", CONNECT, others=other)
    assert found.settings.replicator.connectors.source == "other"


ORIGIN = "origin_header: site"


def test_topics_that_both_clusters_write_are_replicated_back_by_the_other_link() -> None:
    replicator = "{kind: mirrormaker2, connect: 'http://c:1', connectors: {source: back}}"
    ends = "from: b, to: a, topics: [t]"
    plain = f"  plain: {{{ends}, replicator: {replicator.replace('back', 'plain')}}}\n"
    west = f"  west: {{{ends}, {ORIGIN}, replicator: {replicator}}}\n"
    found = reverse_link("mirrormaker2", CONNECT, ORIGIN, plain + west)
    assert found.settings.replicator.connectors.source == "back"
    assert found.settings.origin_header == "site"


def test_a_link_back_without_all_topics_cannot_replicate_them_back() -> None:
    west = f"  west: {{from: b, to: a, topics: [u], {ORIGIN}, replicator: {{kind: none}}}}\n"
    with pytest.raises(ConfigError, match="no link from b to a with the same header") as caught:
        reverse_link("mirrormaker2", CONNECT, ORIGIN, west)
    assert "docs/howto/two-active-sites.md" in caught.value.hint


def test_the_reverse_replicator_must_be_named() -> None:
    with pytest.raises(ConfigError, match="no replication from b to a is configured"):
        reverse_link("mirrormaker2", CONNECT)


def test_renamed_copies_are_replicated_back_under_their_own_names() -> None:
    found = reverse_link("mirrormaker2", CONNECT + BACK + ", rename: 'a.${topic}'")
    assert found.topics_of(["a.t", "t", "a.other", "b.t", "a.a.t"]) == ("a.t",)
    assert (found.target_topic("a.t"), found.source_topic("t")) == ("t", "a.t")
    assert found.carries_group("g")


def test_internal_topics_of_mirrormaker_are_not_replicated_back() -> None:
    text = HEAD + LINK.format(
        kind="mirrormaker2", more="groups: [g]", rest=CONNECT + BACK + ", rename: 'a.${topic}'"
    )
    config = read(text.replace("topics: [t]", "topics: ['.*']"), Path("drctl.yaml"))
    found = reversed_link(config.link("main"))
    names = ["a.t", "a.heartbeats", "a.checkpoints.internal", "mm2-offset-syncs.a.internal", "t"]
    assert found.topics_of(names) == ("a.t",)


@pytest.mark.parametrize("rename", ["", ", rename: 'a.${topic}'"])
def test_topics_kept_apart_on_the_primary_prevent_a_failback(rename: str) -> None:
    back = BACK.replace("}}", "}, rename: 'b.${topic}'}")
    with pytest.raises(ConfigError, match=r"renames TOPIC to b\.TOPIC"):
        reverse_link("mirrormaker2", CONNECT + back + rename)


def test_a_link_with_other_topics_is_not_the_reverse_link() -> None:
    replicator = "{kind: mirrormaker2, connect: 'http://c:1', connectors: {source: other}}"
    other = f"  home: {{from: b, to: a, topics: [u], replicator: {replicator}}}\n"
    with pytest.raises(ConfigError, match="no replication from b to a is configured"):
        reverse_link("mirrormaker2", CONNECT, others=other)


def test_a_failback_marks_its_fences_like_the_link(tmp_path: Path) -> None:
    others = LINK.format(more="groups: [g]", kind="none", rest="").replace("main", "main-back")
    text = HEAD + LINK.format(more="groups: [g]", kind="none", rest="") + others
    config = read(text, tmp_path / "drctl.yaml")
    back = reversed_link(config.link("main"))
    named = {link.name: link.configured for link in (config.link("main"), back)}
    assert named == {"main": "main", "main-back": "main"}
    signing = [
        cast(SharedRules, ClusterLinkWriter(config, link, tmp_path, {}).acls("a")).link
        for link in (config.link("main"), back, config.link("main-back"))
    ]
    assert signing == ["main", "main", "main-back"]


def test_a_failback_is_journaled_where_the_link_leads() -> None:
    config = read(HEAD + LINK.format(more="groups: [g]", kind="none", rest=""), Path("drctl.yaml"))
    forward, back = config.link("main"), reversed_link(config.link("main"))
    places = [journal_places(config, link)[0].where for link in (forward, back)]
    assert places == ["topic __drctl_journal of b"] * 2
