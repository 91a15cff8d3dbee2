"""`drctl init` on two real clusters with a real MirrorMaker 2 between them."""

from pathlib import Path

import pytest

from drctl.config.loading import load
from drctl.lab.lab import Lab
from drctl.lab.worker import CONNECT
from tests.cli.conftest import Run
from tests.cli.documents import check
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm


def options(lab: Lab) -> list[str]:
    """Return options that reach the lab, without a password."""
    words = []
    for name in ("primary", "secondary"):
        cluster = lab.cluster(name)
        properties = cluster.public_properties("admin")
        del properties["bootstrap.servers"]
        properties["sasl.password"] = f"${{file:{cluster.password_file('admin')}}}"
        for key, value in properties.items():
            words += [f"--{name}-property", f"{key}={value}"]
    return words


def topics_of(cluster: ClusterUnderTest) -> set[str]:
    return set(cluster.admin.list_topics(timeout=30).topics)


def test_the_written_configuration_matches_the_clusters(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest, drctl: Run, tmp_path: Path
) -> None:
    before = topics_of(primary), topics_of(secondary)
    url = lab.parts.worker.url
    ran = drctl(
        "init",
        primary.bootstrap,
        secondary.bootstrap,
        "--connect",
        url,
        *options(lab),
        "-o",
        "json",
    )
    assert (ran.code, ran.stderr) == (0, "")
    document = check(ran.document())
    assert (document["replicator"], document["notes"]) == ("mirrormaker2", [])
    path = tmp_path / "drctl.yaml"
    assert path.stat().st_mode & 0o777 == 0o600
    link = load(path).link()
    assert (link.source, link.target) == ("primary", "secondary")
    replicator = link.settings.replicator
    assert replicator.connectors.source == lab.parts.directions[0].names["source"]
    assert replicator.connectors.checkpoint == lab.parts.directions[0].names["checkpoint"]
    assert [found.raw for found in replicator.connect or ()] == [url]
    assert link.target_topic("flights-1") == "flights-1"
    assert link.carries("flights-1")
    assert not link.carries("other")
    assert (topics_of(primary), topics_of(secondary)) == before
    shown = ran.stdout + ran.stderr + path.read_text(encoding="utf-8")
    for cluster in ("primary", "secondary"):
        for user in ("admin", "replicator", "orders-app"):
            assert lab.cluster(cluster).password_file(user).read_text() not in shown


def test_without_connect_topics_of_both_clusters_are_written(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest, drctl: Run, tmp_path: Path
) -> None:
    ran = drctl("init", primary.bootstrap, secondary.bootstrap, *options(lab))
    assert ran.code == 0
    assert ran.stdout.endswith(
        "wrote drctl.yaml\nnext: add `fence` and `endpoints` to it, then run: drctl doctor\n"
    )
    assert "note: no replicator from the first cluster to the second was found" in ran.stderr
    assert load(tmp_path / "drctl.yaml").link().settings.replicator.kind == "none"


def test_one_cluster_under_two_names(lab: Lab, primary: ClusterUnderTest, drctl: Run) -> None:
    words = [word.replace("secondary-admin", "primary-admin") for word in options(lab)]
    ran = drctl("init", primary.bootstrap, primary.bootstrap, *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert "are the same cluster" in ran.stderr


def test_a_wrong_password_is_named_and_nothing_is_written(
    lab: Lab, primary: ClusterUnderTest, drctl: Run, tmp_path: Path
) -> None:
    words = [word.replace("secondary-admin", "primary-admin") for word in options(lab)]
    ran = drctl("init", primary.bootstrap, lab.cluster("secondary").bootstrap, *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert "secondary" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_connect_worker(
    lab: Lab, primary: ClusterUnderTest, secondary: ClusterUnderTest, drctl: Run, tmp_path: Path
) -> None:
    nobody = "http://me:${env:PLANTED}@127.0.0.1:1"
    ran = drctl(
        "init", primary.bootstrap, secondary.bootstrap, "--connect", nobody, *options(lab),
        environ={"PLANTED": "hunter2-planted"},
    )  # fmt: skip
    assert (ran.code, ran.stdout) == (5, "")
    assert "hunter2-planted" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_lab_documents_match_their_schema(lab: Lab, drctl: Run) -> None:
    ran = drctl("lab", "status", "--dir", str(lab.root), "-o", "json")
    assert (ran.code, ran.stderr) == (0, "")
    assert CONNECT in {part["name"] for part in check(ran.document())["components"]}
