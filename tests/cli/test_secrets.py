"""A planted secret is searched in everything that the real command prints or writes."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.conftest import Ran, Run
from tests.cli.documents import check
from tests.cli.test_exit_codes import free_port

PLANTED = "hunter2-planted"
CONFIG = """clusters:
  primary:
    bootstrap: 127.0.0.1:{port}
    properties:
      security.protocol: SASL_PLAINTEXT
      sasl.mechanism: PLAIN
      sasl.username: admin
      sasl.password: {password}
  secondary: {{bootstrap: "127.0.0.1:1"}}
links:
  main: {{from: primary, to: secondary, topics: [orders]{more}}}
"""
BROKEN = (
    # YAML that breaks in or near a secret
    "clusters: {a: {properties: {sasl.password: hunter2-planted",
    "clusters:\n a:\n  properties:\n   sasl.password: hunter2-planted: x\n",
    "clusters:\n a:\n  properties:\n   sasl.password: 'hunter2-planted\n",
    "clusters:\n a:\n  properties:\n   sasl.password: *hunter2-planted\n",
    "clusters:\n a:\n  properties:\n   sasl.password: &hunter2-planted\n",
    "clusters:\n a:\n  properties:\n   sasl.password: !hunter2-planted\n",
    "clusters:\n a:\n  properties:\n   sasl.password: !<hunter2-planted> x\n",
    'clusters:\n a:\n  properties:\n   sasl.password: "\\qhunter2-planted"\n',
    "clusters:\n a:\n  properties:\n   sasl.password: |hunter2-planted\n",
    "clusters:\n a:\n  properties:\n   sasl.password: @hunter2-planted\n",
    # values that the schema refuses
    "clusters: {a: {bootstrap: 'a:1', properties: {sasl.password: [hunter2-planted]}}}",
    "clusters: {a: {bootstrap: 'a:1', properties: {sasl.pasword: {hunter2-planted: x}}}}",
    "clusters: {a: {bootstrap: 'a:1', properties: {sasl.password: '${hunter2-planted}'}}}",
    "clusters: {a: {bootstrap: 'a:1', properties: {sasl.jaas.config: 'hunter2-planted'}}}",
    "clusters: {a: {bootstrap: 'a:1', sasl.password: hunter2-planted}}",
    "clusters: {a: {bootstrap: 'http://u:hunter2-planted@x'}}",
    "links: {m: {replicator: {kind: none, connect: 'ftp://u:hunter2-planted@x'}}}",
    "links: {m: {replicator: {kind: none, connect: 'u:hunter2-planted@x'}}}",
    "links: {m: {replicator: {kind: none, connect: ['http://u:[hunter2-planted/#@x y']}}}",
    "links: {m: {replicator: {kind: none, connect_access: {headers: {X: [hunter2-planted]}}}}}",
    "links: {m: {replicator: {kind: none, connect_access: {user: {hunter2-planted: x}}}}}",
    "links: {m: {endpoints: [{kind: x, secret: hunter2-planted}, {key: hunter2-planted}]}}",
    "spark: {conf: {spark.hadoop.fs.s3a.secret.key: [hunter2-planted]}}",
)


def must_hide(ran: Ran, folder: Path) -> None:
    assert PLANTED not in ran.stdout + ran.stderr
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in ("drctl.yaml", "secret"):
            assert PLANTED.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_broken_configurations(called: Run, tmp_path: Path, number: int) -> None:
    (tmp_path / "drctl.yaml").write_text(BROKEN[number])
    ran = called("gap", "--verbose", *(("-o", "json") if number % 2 else ()))
    assert ran.code == 2
    assert "drctl.yaml:" in ran.stdout + ran.stderr
    must_hide(ran, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 10])
def test_broken_configurations_with_the_real_command(
    drctl: Run, tmp_path: Path, number: int
) -> None:
    (tmp_path / "drctl.yaml").write_text(BROKEN[number])
    ran = drctl("gap", "--verbose", "-o", "json")
    assert (ran.code, ran.stderr) == (2, "")
    must_hide(ran, tmp_path)


@pytest.mark.slow
def test_5_unreachable_clusters(drctl: Run, tmp_path: Path) -> None:
    """All at once: each waits for the timeout of a cluster."""
    (tmp_path / "secret").write_text(PLANTED)
    address = f"127.0.0.1:{free_port()}"

    def attempt(password: str) -> Ran:
        path = tmp_path / f"{abs(hash(password))}" / "drctl.yaml"
        path.parent.mkdir()
        text = CONFIG.format(port=address.partition(":")[2], password=password, more="")
        path.write_text(text)
        return drctl("gap", "--verbose", "--config", str(path), environ={"PLANTED": PLANTED})

    passwords = (PLANTED, "${env:PLANTED}", "${file:../secret}", "x${env:PLANTED}y")
    with ThreadPoolExecutor() as pool:
        in_json = pool.submit(drctl, "init", address, "127.0.0.1:2", "-o", "json")
        endings = dict(zip(passwords, pool.map(attempt, passwords), strict=True))
    for password, ran in endings.items():
        assert (ran.code, ran.stdout) == (5, "")
        assert address in ran.stderr
        assert (": other users can read /" in ran.stderr) is ("file" in password)
        literal = "a secret in a file that other users can read" in ran.stderr
        assert literal is (password == PLANTED)
        must_hide(ran, tmp_path)
    error = check(in_json.result().document())["error"]
    assert (error["code"], error["kind"], in_json.result().stderr) == (5, "NoClusterResponds", "")
    assert address in error["message"]


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("${env:ABSENT}", "drctl.yaml:8:22: clusters.primary.properties.sasl.password: "
         "environment variable ABSENT is not set"),
        ("${file:absent}", "drctl.yaml:8:22: clusters.primary.properties.sasl.password: "
         "cannot read absent: No such file or directory"),
    ],
)  # fmt: skip
def test_a_missing_secret(called: Run, tmp_path: Path, password: str, message: str) -> None:
    (tmp_path / "drctl.yaml").write_text(CONFIG.format(port=2, password=password, more=""))
    ran = called("gap")
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--primary-property", f"sasl.password={PLANTED}"),
        ("--secondary-property", f"ssl.key.password={PLANTED}"),
        ("--primary-property", PLANTED),
        ("--primary-property", f"sasl.password={PLANTED}${{env:PATH}}"),
        ("--primary-property", f"sasl.password=${{{PLANTED}"),
        ("--connect", f"http://u:{PLANTED}@127.0.0.1:1"),
        ("--connect", f"ftp://u:{PLANTED}${{env:PATH}}@127.0.0.1:1"),
        ("--connect", f"http://u:a/#?[{PLANTED}@127.0.0.1:1"),
        ("--connect", f"u:{PLANTED}@127.0.0.1:1"),
    ],
)
def test_secrets_on_a_command_line_are_refused_and_not_repeated(
    called: Run, tmp_path: Path, arguments: tuple[str, str]
) -> None:
    ran = called("init", "127.0.0.1:1", "127.0.0.1:2", *arguments)
    assert (ran.code, ran.stdout) == (2, "")
    assert arguments[0] in ran.stderr or "primary: " in ran.stderr
    must_hide(ran, tmp_path)
    assert list(tmp_path.iterdir()) == []
