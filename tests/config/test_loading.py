"""Where the file is searched for, its defaults, and how long loading takes."""

import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from drctl.config.endpoints import CommandEndpoint, DnsEndpoint, FileEndpoint, HaproxyEndpoint
from drctl.config.loading import find, load, read
from drctl.model.errors import ConfigError, UsageError

CONTRACT = """
clusters:
  primary:
    bootstrap: broker1:9093,broker2:9093
    properties:
      security.protocol: SASL_SSL
      sasl.password: ${env:PRIMARY_PASSWORD}
  secondary:
    bootstrap: other:9093
links:
  main:
    from: primary
    to: secondary
    topics: ["orders", "payments-.*"]
    groups: [".*"]
    replicator:
      kind: mirrormaker2
      connect: http://connect:8083
      connectors: {source: mm2-source, checkpoint: mm2-checkpoint, heartbeat: mm2-heartbeat}
      reverse: {connect: [http://a:1, http://b:1], connectors: {source: back}}
      rename: ${topic}
    fence: {method: acl, principals: ["User:orders-app"]}
    endpoints:
      - kind: dns
        server: 10.0.0.1
        zone: Example.org
        record: kafka.example.org.
        clusters: {primary: 10.0.1.1, secondary: [10.1.1.1, 10.1.1.2]}
        tsig: {name: drctl-key, secret: "${env:TSIG_SECRET}"}
        resolvers: ["10.0.0.53", "[fd00::53]:5353"]
      - kind: haproxy
        address: "10.0.0.2:9999"
        backend: kafka
        servers: {primary: p1, secondary: [s1, s2]}
      - {kind: file, path: bootstrap.txt}
      - {kind: command, argv: [./switch, "--to={cluster}"], observe: ./look, env: {REGION: eu}}
policy:
  max_lag_records: 0
  max_rpo_seconds: 30
  order: per-key
spark:
  master: local[*]
  conf: {spark.executor.memory: 2g, spark.speculation: no}
  jars: [jars/a.jar, /abs/b.jar, "s3a://bucket/c.jar"]
state_dir: .drctl
"""


def test_the_example_of_the_command_contract() -> None:
    config = read(CONTRACT, Path("/etc/dr/drctl.yaml"))
    link = config.link()
    replicator = link.settings.replicator
    assert (link.source, link.target, config.links) == ("primary", "secondary", ("main",))
    assert replicator.kind == "mirrormaker2"
    assert [url.raw for url in replicator.connect or ()] == ["http://connect:8083"]
    assert replicator.connectors.checkpoint == "mm2-checkpoint"
    assert replicator.reverse is not None
    assert [url.raw for url in replicator.reverse.connect or ()] == ["http://a:1", "http://b:1"]
    assert link.settings.fence.principals == ("User:orders-app",)
    dns, proxy, file, command = link.settings.endpoints
    assert isinstance(dns, DnsEndpoint)
    assert (dns.zone, dns.record, dns.type, dns.ttl) == (
        "example.org.",
        "kafka.example.org.",
        "A",
        5,
    )
    assert dns.clusters == {"primary": ("10.0.1.1",), "secondary": ("10.1.1.1", "10.1.1.2")}
    assert dns.tsig is not None
    assert (dns.tsig.name, dns.tsig.algorithm) == ("drctl-key.", "hmac-sha256")
    assert str(dns.tsig.secret) == "${env:TSIG_SECRET}"
    assert dns.resolvers == ("10.0.0.53:53", "[fd00::53]:5353")
    assert isinstance(proxy, HaproxyEndpoint)
    assert (proxy.servers["primary"], proxy.cut_sessions) == (("p1",), True)
    assert isinstance(file, FileEndpoint)
    assert (file.path, file.content, dict(file.clusters)) == ("bootstrap.txt", "{bootstrap}\n", {})
    assert isinstance(command, CommandEndpoint)
    assert (command.observe, command.timeout_s) == (("./look",), 30)
    assert {name: str(value) for name, value in command.env.items()} == {"REGION": "eu"}
    assert config.policy.order == "per-key"
    assert config.state_dir == Path("/etc/dr/.drctl")
    assert config.jars == ("/etc/dr/jars/a.jar", "/abs/b.jar", "s3a://bucket/c.jar")
    assert {k: v.raw for k, v in config.spark.conf.items()} == {
        "spark.executor.memory": "2g",
        "spark.speculation": "false",
    }


def test_omitted_keys_have_defaults() -> None:
    text = (
        "clusters: {a: {bootstrap: 'a:1', properties: }, b: {bootstrap: 'b:1'}}\n"
        "links: {main: {from: a, to: b, topics: [x], fence: }}\npolicy:\n"
    )
    config = read(text, Path("drctl.yaml"))
    settings = config.link().settings
    assert settings.groups == (".*",)
    assert settings.identity == ("key", "value", "headers", "timestamp")
    assert settings.keeps_partitions
    assert settings.translate
    assert settings.exclude == settings.ignore_headers == settings.endpoints == ()
    assert (settings.replicator.kind, settings.fence.method) == ("none", "none")
    assert (config.policy.max_lag_records, config.policy.max_rpo_seconds) == (0, 30)
    assert config.spark.master == "local[*]"


def test_anchors_and_merges_share_properties() -> None:
    text = (
        "clusters:\n"
        "  a: &a\n    bootstrap: a:1\n    properties: &common {security.protocol: SSL, x: y}\n"
        "  b: {bootstrap: 'b:1', properties: {<<: *common, x: z}}\n"
        "  c: {<<: *a, bootstrap: 'c:1'}\n"
    )
    clusters = read(text, Path("x.yaml")).clusters
    assert clusters["b"].client_properties({}) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "x": "z",
    }
    assert clusters["c"].client_properties({})["bootstrap.servers"] == "c:1"


def test_a_configuration_cannot_be_changed() -> None:
    config = read(CONTRACT, Path("drctl.yaml"))
    with pytest.raises(ValidationError):
        config.policy.order = "none"
    with pytest.raises(TypeError):
        config.clusters["x"] = config.clusters["primary"]  # type: ignore[index]
    with pytest.raises(TypeError):
        config.spark.conf["x"] = config.spark.conf["spark.speculation"]  # type: ignore[index]


def test_search_order_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        find(None, {})
    assert caught.value.message == f"configuration not found: {tmp_path / 'drctl.yaml'}"
    assert "drctl init" in caught.value.hint
    for name in ("drctl.yaml", "of-the-environment.yaml", "of-the-option.yaml"):
        (tmp_path / name).touch()
    environ = {"DRCTL_CONFIG": "of-the-environment.yaml"}
    assert find(None, {}) == Path("drctl.yaml")
    assert find(None, {"DRCTL_CONFIG": ""}) == Path("drctl.yaml")
    assert find(None, environ) == Path("of-the-environment.yaml")
    assert find(Path("of-the-option.yaml"), environ) == Path("of-the-option.yaml")


@pytest.mark.parametrize(
    ("path", "environ", "message"),
    [
        (Path("a.yaml"), {}, "configuration not found: a.yaml (from --config)"),
        (None, {"DRCTL_CONFIG": "b.yaml"}, "configuration not found: b.yaml (from $DRCTL_CONFIG)"),
    ],
)
def test_a_named_file_must_exist(path: Path | None, environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find(path, environ)
    assert caught.value.message == message


def test_a_path_that_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert caught.value.message == f"{tmp_path}: cannot be read: Is a directory"


def test_an_unknown_cluster() -> None:
    with pytest.raises(UsageError) as caught:
        read(CONTRACT, Path("drctl.yaml")).cluster("primry")
    assert caught.value.message == "drctl.yaml has no cluster 'primry'"
    assert caught.value.hint == "did you mean 'primary'?"


def test_loading_is_fast(tmp_path: Path) -> None:
    path = tmp_path / "drctl.yaml"
    path.write_text(CONTRACT, encoding="utf-8")
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        load(path)
        taken.append(time.perf_counter() - began)
    assert min(taken) < 0.15
