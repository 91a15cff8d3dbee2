"""A property that librdkafka rejects is a configuration error, in every command."""

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.documents import check

CONFIG = """\
clusters:
  a: {{bootstrap: "127.0.0.1:1"}}
  b:
    bootstrap: "127.0.0.1:2"
    properties:
      client.id: drctl
      {line}
links:
  main: {{from: {ends[0]}, to: {ends[1]}, topics: [".*"], groups: [".*"], fence: {{method: none}}}}
"""

COMMANDS = (
    ("status",),
    ("doctor",),
    ("gap", "--scope", "estimate"),
    ("gap", "--scope", "full"),
    ("failover",),
    ("failover", "--execute", "--yes"),
    ("failover", "--mode", "unplanned"),
    ("failover", "--mode", "unplanned", "--override", "source-alive=it is gone"),
    ("failover", "--mode", "unplanned", "--execute", "--yes"),
    ("failback", "--check-order"),
    ("failback",),
    ("offsets", "translate"),
    ("offsets", "apply"),
)


def write(folder: Path, line: str, *ends: str) -> None:
    text = CONFIG.format(line=line, ends=ends)
    (folder / "drctl.yaml").write_text(text, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("ends", [("a", "b"), ("b", "a")], ids=["target", "source"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_misspelled_property_is_reported_with_its_line(
    called: Run, tmp_path: Path, words: tuple[str, ...], ends: tuple[str, str]
) -> None:
    write(tmp_path, "sasl.pasword: x1y2", *ends)
    ran = called(*words, "--output", "json")
    error = check(ran.document())["error"]
    assert (ran.code, error["kind"]) == (2, "ConfigError"), error
    assert error["message"].startswith("drctl.yaml:7:7: clusters.b.properties.sasl.pasword: ")
    assert "No such configuration property" in error["message"]
    assert "x1y2" not in ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ssl.ca.location: /no/such/ca.pem", ""),
        ("security.protocol: TLS", "security.protocol"),
        ("socket.timeout.ms: soon", "socket.timeout.ms"),
        ("sasl.mechanism: SCRAM-SHA-999", ""),
    ],
)
def test_an_invalid_value_is_reported_with_its_line(
    called: Run, tmp_path: Path, line: str, named: str
) -> None:
    if not named:
        named = line.partition(":")[0]
        login = ["sasl.username: u", "sasl.password: p"] if "sasl" in line else []
        protocol = "security.protocol: " + ("SASL_PLAINTEXT" if login else "SSL")
        line = "\n      ".join((line, protocol, *login))
    write(tmp_path, line, "b", "a")
    ran = called("status")
    assert ran.code == 2, ran.stderr
    assert f"drctl.yaml:7:7: clusters.b.properties.{named}: " in ran.stderr
