"""Secrets are read late, from where the configuration says, and never shown."""

import copy
import json
import pickle
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drctl.config.configuration import Config
from drctl.config.loading import load, read
from drctl.config.secret import Secret, conceal, hide_user_info, names_secret, reveal
from drctl.config.setting import Setting, parts_of
from drctl.model.errors import ConfigError

HEAD = """clusters:
  primary:
    bootstrap: broker:9092
    properties:
"""


def config_with(path: Path, *lines: str) -> Config:
    path.write_text(HEAD + "".join(f"      {line}\n" for line in lines), encoding="utf-8")
    path.chmod(0o600)
    return load(path)


def properties(config: Config, **environ: str) -> dict[str, str | Secret]:
    return config.cluster("primary").client_properties(environ)


def test_properties_pass_through_as_text(tmp_path: Path) -> None:
    config = config_with(
        tmp_path / "drctl.yaml",
        "enable.ssl.certificate.verification: no",
        "log.connection.close: TRUE",
        "socket.timeout.ms: 010",
        "fetch.error.backoff.ms: 1_000",
        "client.id: 2020-01-01",
        "some.ratio: 1e3",
        "some.time: 12:34:56",
        "quoted: 'true'",
        "empty: ''",
    )
    assert properties(config) == {
        "bootstrap.servers": "broker:9092",
        "enable.ssl.certificate.verification": "false",
        "log.connection.close": "true",
        "socket.timeout.ms": "010",
        "fetch.error.backoff.ms": "1_000",
        "client.id": "2020-01-01",
        "some.ratio": "1e3",
        "some.time": "12:34:56",
        "quoted": "true",
        "empty": "",
    }


@pytest.mark.parametrize("word", ["yes", "0123", "1e5", "12:34", "2020-01-01", "1_0", ".inf"])
def test_a_password_is_taken_as_written(tmp_path: Path, word: str) -> None:
    config = config_with(tmp_path / "drctl.yaml", f"sasl.password: {word}")
    assert properties(config)["sasl.password"] == Secret(word)


def test_references_inside_and_instead_of_values(tmp_path: Path) -> None:
    secret = tmp_path / "below" / "secret"
    secret.parent.mkdir()
    secret.write_text("from a file\n", encoding="utf-8")
    config = config_with(
        tmp_path / "drctl.yaml",
        "sasl.password: ${env:PLANTED}",
        "client.id: a ${env:PLANTED} b ${file:below/secret} c $${env:PLANTED}",
        f"sasl.username: ${{file:{secret}}}",
    )
    found = properties(config, PLANTED="from ${env:elsewhere}")
    assert reveal(found["sasl.password"]) == "from ${env:elsewhere}"
    assert reveal(found["client.id"]) == ("a from ${env:elsewhere} b from a file c ${env:PLANTED}")
    assert found["sasl.username"] == Secret("from a file")


def test_nothing_is_read_before_it_is_needed(tmp_path: Path) -> None:
    config = config_with(tmp_path / "drctl.yaml", "sasl.password: ${file:/nowhere/at/all}")
    with pytest.raises(ConfigError) as caught:
        properties(config)
    place = f"{tmp_path / 'drctl.yaml'}:5:22: clusters.primary.properties.sasl.password"
    assert caught.value.message == (
        f"{place}: cannot read /nowhere/at/all: No such file or directory"
    )


@pytest.mark.parametrize(
    ("written", "environ", "message"),
    [
        ("${env:ABSENT}", {}, "environment variable ABSENT is not set"),
        ("${env:EMPTY}", {"EMPTY": ""}, "${env:EMPTY} is empty"),
        ("${env:A}${env:B}", {"A": "", "B": ""}, "${env:A} and ${env:B} are empty"),
        ("${file:.}", {}, "cannot read {folder}: Is a directory"),
        ("${file:binary}", {}, "{folder}/binary is not UTF-8 text"),
        ("${file:empty}", {}, "${file:empty} is empty"),
        ("${file:endless}", {}, "{folder}/endless is larger than 1,000,000 bytes"),
    ],
)
def test_an_unreadable_reference_is_reported_with_its_position(
    tmp_path: Path, written: str, environ: dict[str, str], message: str
) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00planted")
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "endless").write_bytes(b"x" * 1_000_001)
    config = config_with(tmp_path / "drctl.yaml", f"sasl.password: {written}")
    with pytest.raises(ConfigError) as caught:
        properties(config, **environ)
    place = f"{tmp_path / 'drctl.yaml'}:5:22: clusters.primary.properties.sasl.password"
    assert caught.value.message == f"{place}: {message.replace('{folder}', str(tmp_path))}"


def test_a_secret_is_never_shown() -> None:
    secret = Secret("planted")
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r:>20}", "%s" % secret]  # noqa: UP031
    assert not any("planted" in text for text in shown)
    assert secret.reveal() == "planted"
    assert secret == Secret("planted") != Secret("other")
    assert len({secret, Secret("planted")}) == 1
    for leave in (pickle.dumps, copy.deepcopy, json.dumps):
        with pytest.raises(TypeError) as caught:
            leave(secret)
        assert "planted" not in str(caught.value)


def test_literal_secrets_and_passwords_in_urls_are_masked() -> None:
    text = HEAD + (
        "      sasl.password: planted\n"
        "      sasl.username: admin\n"
        "      ssl.key.password: a ${env:X} planted\n"
        "  secondary: {bootstrap: 'b:1'}\n"
        "links:\n"
        "  main:\n"
        "    from: primary\n"
        "    to: secondary\n"
        "    topics: [a]\n"
        "    replicator: {kind: mirrormaker2, connect: 'http://me:planted@c:1'}\n"
        "    endpoints:\n"
        "      - kind: dns\n"
        "        server: ns.example.org\n"
        "        zone: example.org\n"
        "        record: kafka.example.org\n"
        "        clusters: {primary: 10.0.0.1, secondary: 10.1.0.1}\n"
        "        tsig: {name: drctl, secret: planted}\n"
        "      - kind: command\n"
        "        argv: [switch, '{cluster}']\n"
        "        observe: [look]\n"
        "        env: {API_TOKEN: planted, REGION: here}\n"
        "spark: {conf: {spark.hadoop.fs.s3a.secret.key: planted}}\n"
    )
    config = read(text, Path("x.yaml"))
    shown = json.dumps(config.redacted()) + repr(config) + str(config.file) + repr(config.link())
    assert "planted" not in shown
    dump = config.redacted()
    assert dump["clusters"]["primary"]["properties"] == {
        "sasl.password": "***",
        "sasl.username": "admin",
        "ssl.key.password": "***${env:X}***",
    }
    assert dump["links"]["main"]["replicator"]["connect"] == ["http://me:***@c:1"]
    assert dump["links"]["main"]["from"] == "primary"
    assert config.secrets({"X": "of the environment"}) == {"planted", "of the environment"}


def test_files_readable_by_others_cause_a_warning(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("planted", encoding="utf-8")
    secret.chmod(0o640)
    config = config_with(
        tmp_path / "drctl.yaml", "sasl.password: ${file:secret}", "ssl.key.password: planted"
    )
    path = tmp_path / "drctl.yaml"
    place = f"{path}:5:22: clusters.primary.properties.sasl.password"
    warning = f"{place}: other users can read {secret}: chmod 600 {secret}"
    assert config.warnings() == (warning,)
    path.chmod(0o644)
    written = f"{path}:6:25: clusters.primary.properties.ssl.key.password"
    literal = f"{written}: a secret in a file that other users can read: chmod 600 {path}"
    assert config.warnings() == (warning, literal)
    secret.chmod(stat.S_IRUSR)
    path.chmod(0o600)
    assert config.warnings() == ()


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password", "key"),
        *("apikey", "token", "db.pwd", "sasl.oauthbearer.client.secret"),
        *("sasl.oauthbearer.config", "sasl.jaas.config", "sasl.pasword"),
        *("spark.hadoop.fs.s3a.secret.key", "tsig_key", "my.credentials", "account.key"),
        *("fs.azure.account.key.mine.dfs.core.windows.net", "fs.s3a.access.key", "AccountKey"),
        *("SharedAccessKey", "passphrase", "GPG_PASSPHRASE", "MYSQL_PWD", "PWD", "PGPASS"),
        *("DB_PASS", "REDIS_PASS_1", "REDISCLI_AUTH", "NPM_AUTH", "Authorization", "Cookie"),
        *("basic.auth.user.info", "tls.client.passphrase"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        *("sasl.username", "ssl.key.location", "ssl.ca.location", "security.protocol"),
        *("client.id", "bootstrap", "sasl.mechanism", "sasl.oauthbearer.token.endpoint.url"),
        *("ssl.keystore.location", "server", "sasl.kerberos.keytab", "ssl.ca.pem", "PGPASSFILE"),
        *("HTTP_BYPASS", "COMPASS", "ssl.client.auth", "AWS_ACCESS_KEY_ID", "spark.authenticate"),
    ],
)
def test_names_that_are_not_secrets(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:p@h:1/x", "http://u:***@h:1/x"),
        ("http://u:p@ss@h:1", "http://u:***@h:1"),
        ("http://u:p/q@h", "http://u:***@h"),
        ("http://u:p q#r?s[t\n@h", "http://u:***@h"),
        ("http://jane@corp:p@h", "http://jane@corp:***@h"),
        ("https://h:8083", "https://h:8083"),
        ("SASL_SSL://h:9093,SSL://i:9092", "SASL_SSL://h:9093,SSL://i:9092"),
    ],
)
def test_passwords_in_urls(text: str, shown: str) -> None:
    assert hide_user_info(text) == shown


@settings(deadline=None)
@given(st.text(), st.sets(st.text(min_size=4, max_size=8)))
def test_masked_texts_have_no_secret(text: str, secrets: set[str]) -> None:
    planted = text + "".join(secrets) + text
    hidden = conceal(planted, frozenset(secrets))
    assert not any(secret in hidden for secret in secrets if not set(secret) & set("*"))


@settings(deadline=None)
@given(st.text())
def test_a_text_without_references_is_unchanged(text: str) -> None:
    written = text.replace("${", "$${")
    assert "".join(str(part) for part in parts_of(written)) == text
    assert reveal(Setting(written, "here").resolve({})) == text
