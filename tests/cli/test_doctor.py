"""`drctl doctor` with unreachable clusters: its output and exit code."""

import socket
from pathlib import Path

import pytest
import yaml

from drctl.app.doctor import applications, secret_files, seen_clients
from drctl.config.loading import load
from drctl.model.errors import UsageError
from tests.cli.conftest import Run
from tests.cli.documents import check


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Both clusters are unused ports."""
    with socket.socket() as one, socket.socket() as two:
        ports = []
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
            ports.append(each.getsockname()[1])
    secret = tmp_path / "secret"
    secret.write_text("planted", encoding="utf-8")
    secret.chmod(0o640)
    properties = {"sasl.password": f"${{file:{secret}}}"}
    document = {
        "clusters": {
            "a": {"bootstrap": f"127.0.0.1:{ports[0]}", "properties": properties},
            "b": {"bootstrap": f"127.0.0.1:{ports[1]}"},
        },
        "links": {"main": {"from": "a", "to": "b", "topics": ["orders"]}},
    }
    path = tmp_path / "drctl.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    path.chmod(0o644)
    return path


@pytest.mark.slow
def test_no_cluster_answers(called: Run, config: Path) -> None:
    ran = called("doctor", "--config", str(config), "-o", "json")
    assert ran.code == 5
    document = check(ran.document())
    assert document["unreachable"] == ["a", "b"]
    assert not document["ready"]
    rows = {row["check"]: row for row in document["checks"]}
    assert rows["target-unreachable"]["status"] == "fail"
    assert rows["target-unreachable"]["blocks_failover"]
    assert rows["brokers-answer"]["status"] == "not-checked"
    assert rows["secret-files"]["status"] == "warn"
    assert "0640" in rows["secret-files"]["evidence"]
    assert "planted" not in ran.stdout


def test_files_named_in_drctl_yaml(config: Path) -> None:
    found = {Path(each.path).name: each for each in secret_files(load(config))}
    assert found["drctl.yaml"].mode == 0o600  # it holds no secret: reading it is no harm
    assert (found["secret"].mode, found["secret"].what) == (
        0o640,
        "clusters.a.properties.sasl.password",
    )


def test_settings_of_applications(config: Path, tmp_path: Path) -> None:
    link = load(config).link()
    java = tmp_path / "app.properties"
    java.write_text("bootstrap.servers=x:1\nkey.serializer=y\n", encoding="utf-8")
    given = (str(java), f"{java}=java-2.6.1")
    clients = applications(given, link)
    assert [(each.library.value, each.version) for each in clients] == [
        ("java", None),
        ("java", (2, 6)),
    ]
    assert [each.release for each in seen_clients(given, clients)] == ["", "2.6.1"]
    java.write_text("bootstrap.servers=x:1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="client library unknown"):
        applications((str(java),), link)
    with pytest.raises(UsageError, match="cannot read"):
        applications((str(tmp_path / "none"),), link)


def test_worker_properties(called: Run, config: Path, tmp_path: Path) -> None:
    given = ("--config", str(config), "--worker", str(tmp_path / "none"))
    ran = called("doctor", *given)
    assert (ran.code, ran.stdout) == (2, "")
    assert "none: cannot read: No such file or directory" in ran.stderr
    ran = called("doctor", *given, "--fix")
    assert (ran.code, ran.stdout) == (2, "")
    assert "--worker and --fix cannot be combined" in ran.stderr
