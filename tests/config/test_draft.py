"""A drctl.yaml drafted from two clusters. DRCTL_REGENERATE=1 writes the expected files."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.config.draft import Draft, Seen, find_mirrors, must_differ, word, words, write_new
from drctl.config.loading import read
from drctl.config.mirrors import mirrors
from drctl.model.errors import Refused, UsageError

FOLDER = Path(__file__).parent / "drafts"
MIRROR = "org.apache.kafka.connect.mirror."
FIRST = Seen("primary", "p1:9093,p2:9093", "id-of-primary", ("orders", "payments"))
SECOND = Seen("secondary", "s1:9093", "id-of-secondary", ("heartbeats", "orders", "primary.orders"))


class Worker:
    """The responses of a Connect worker."""

    def __init__(self, cluster_id: str, **configs: dict[str, str]) -> None:
        self._cluster_id = cluster_id
        self._configs = configs

    def kafka_cluster_id(self) -> str:
        return self._cluster_id

    def connectors(self) -> tuple[str, ...]:
        return tuple(self._configs)

    def config(self, name: str) -> dict[str, str]:
        return self._configs[name]


def source(a: str, b: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": MIRROR + "MirrorSourceConnector",
        "source.cluster.alias": a,
        "target.cluster.alias": b,
        "source.cluster.sasl.jaas.config": 'x required password="planted";',
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def partner(kind: str, a: str, b: str, **more: str) -> dict[str, str]:
    return {**source(a, b, **more), "connector.class": f"{MIRROR}Mirror{kind}Connector"}


IDENTITY = {"replication.policy.class": MIRROR + "IdentityReplicationPolicy"}
WORKERS: dict[str, dict[str, Worker]] = {
    "nothing-found": {},
    "no-replicator": {"http://c:8083": Worker("id-of-secondary", sink={"connector.class": "x.Y"})},
    "both-directions": {
        "http://c1:8083": Worker(
            "id-of-secondary",
            there={**source("A", "B", topics="orders,pay.*", topics_exclude="x"), **IDENTITY},
            check=partner("Checkpoint", "A", "B", groups="app-.*,batch"),
            beat=partner("Heartbeat", "A", "B"),
            other_check=partner("Checkpoint", "B", "A"),
        ),
        "http://c2:8083": Worker(
            "id-of-secondary",
            there={**source("A", "B", topics="orders,pay.*", topics_exclude="x"), **IDENTITY},
        ),
        "http://u:${env:P}@d:8083": Worker("id-of-primary", back=source("B", "A")),
    },
    "default-policy": {
        "http://c:8083": Worker(
            "elsewhere", m=source("primary", "secondary", replication_policy_separator="-")
        )
    },
    "unknown-policy-and-direction": {
        "http://c:8083": Worker(
            "elsewhere",
            m=source("x", "y", replication_policy_class="com.example.Own"),
            n=source("y", "x"),
        )
    },
    "confluent-replicator": {
        "http://c:8083": Worker(
            "elsewhere",
            copy={
                "connector.class": "io.confluent.connect.replicator.ReplicatorSourceConnector",
                "src.kafka.bootstrap.servers": "SASL_SSL://p2:9093",
                "topic.whitelist": "a, b",
                "topic.regex": "c.*",
                "topic.rename.format": "${topic}.replica",
                "src.kafka.sasl.jaas.config": "planted",
            },
        )
    },
}


def draft(workers: dict[str, Worker]) -> Draft:
    found = find_mirrors(workers, FIRST, SECOND)
    secrets = {"sasl.password": "${env:P}", "security.protocol": "SASL_SSL", "odd": "yes: #"}
    return Draft(replace(FIRST, properties=secrets), SECOND, found)


@pytest.mark.parametrize("name", WORKERS)
def test_drafts(name: str) -> None:
    made = draft(WORKERS[name])
    text = made.text() + "".join(f"# note: {note}\n" for note in made.notes())
    expected = FOLDER / f"{name}.yaml"
    if os.environ.get("DRCTL_REGENERATE"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")
    assert "planted" not in text
    config = read(text, Path("drctl.yaml"))
    link = config.link()
    assert (link.source, link.target) == ("primary", "secondary")
    assert config.clusters["primary"].properties["odd"].raw == "yes: #"


def test_every_draft_is_used() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(WORKERS)


@pytest.mark.parametrize(
    ("cluster_id", "more", "forward"),
    [
        ("x", {"source_cluster_bootstrap_servers": "p2:9093"}, True),
        ("x", {"target_cluster_bootstrap_servers": "q:1, SSL://p2:9093"}, False),
        ("id-of-secondary", {}, True),
        ("id-of-primary", {}, False),
        ("id-of-primary", {"source_cluster_bootstrap_servers": "p1:9093"}, True),
        ("x", {}, None),
    ],
)
def test_directions(cluster_id: str, more: dict[str, str], forward: bool | None) -> None:
    workers = {"http://c:1": Worker(cluster_id, m=source("a", "b", **more))}
    (found,) = find_mirrors(workers, FIRST, SECOND)
    assert found.forward is forward


def test_two_names_of_one_cluster() -> None:
    with pytest.raises(UsageError, match="are the same cluster"):
        must_differ(FIRST, Seen("secondary", "s:1", "id-of-primary", ()))


def test_drafted_topic_patterns_match_only_one_topic() -> None:
    first = Seen("primary", "p:1", "1", ("a.b", "aXb", "only-here"))
    made = Draft(first, Seen("secondary", "s:1", "2", ("a.b", "aXb")), ())
    link = read(made.text(), Path("x.yaml")).link()
    assert link.topics_of(["a.b", "aXb", "a-b", "only-here"]) == ("a.b", "aXb")


def test_a_short_class_name_is_recognized() -> None:
    assert mirrors({"m": {"connector.class": "MirrorSource"}})[0].kind == "mirrormaker2"


@settings(deadline=None)
@given(st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])))
def test_texts_survive_a_round_trip(text: str) -> None:
    assert yaml.safe_load(f"a: {word(text)}") == {"a": text}
    assert yaml.safe_load(f"a: {words([text])}") == {"a": [text]}


def test_a_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "drctl.yaml"
    write_new(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused):
        write_new(path, "other")
    assert path.read_text() == "new"
    assert [found.name for found in tmp_path.iterdir()] == ["drctl.yaml"]
    with pytest.raises(UsageError, match="No such file or directory"):
        write_new(tmp_path / "absent" / "drctl.yaml", "x")
