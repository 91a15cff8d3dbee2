"""What is masked in messages, results and journals, and what must not be."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from drctl.config.loading import read
from drctl.config.secret import (
    SECRET_NAME,
    conceal,
    forget,
    masked,
    masked_document,
    remember,
    without_known,
)
from drctl.engine import run_state
from drctl.stores.journal_files import JournalFile
from drctl.views.gap_page import render
from tests.report import gaps

KEY = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQ\n"
    "-----END PRIVATE KEY-----\n"
)


def test_each_line_of_a_multiline_secret_is_masked() -> None:
    concealed = conceal("read MIIEvQIBADANBgkqhkiG9w0BAQEF of -----BEGIN PRIVATE KEY-----", [KEY])
    assert concealed == "read *** of -----BEGIN PRIVATE KEY-----"
    assert conceal(json.dumps(KEY), [KEY]) == '"***"'


def test_certificates_are_not_masked() -> None:
    both = KEY + "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+g\n-----END CERTIFICATE-----\n"
    assert conceal("MIIDdzCCAl+g", [both]) == "MIIDdzCCAl+g"
    assert conceal("AASCBKcwggSjAgEAAoIBAQ", [both]) == "***"


@pytest.mark.parametrize(
    "written",
    [
        "p/q?r's\\t\"ü",
        "p%2Fq%3Fr%27s%5Ct%22%C3%BC",
        "p%2fq%3fr%27s%5ct%22%c3%bc",
        "p/q%3Fr%27s%5Ct%22%C3%BC",
        json.dumps("p/q?r's\\t\"ü")[1:-1],
        repr("p/q?r's\\t\"ü")[1:-1],
        "p/q?r&#x27;s\\t&quot;ü",
        "p/q?r'\"'\"'s\\t\"ü",
        "p/q?r's\\\\t\"ü",
    ],
)
def test_a_secret_is_masked_in_every_encoding(written: str) -> None:
    remember(["p/q?r's\\t\"ü"])
    assert masked(f"x{written}x") == without_known(f"x{written}x") == "x***x"


def test_a_short_secret_does_not_mask_parts_of_names() -> None:
    remember(["test"])
    for name in ("test-orders", "orders.test", "latest", "test_1", "contest-2"):
        assert masked(name) == name
    for text in ("http://u:test@h", "it is test.", "'test'", "test", "user=test, more"):
        assert "test" not in masked(text)
    assert "test" not in without_known("test-orders")


def test_a_secret_that_is_also_a_name_is_not_masked_in_results() -> None:
    remember(["orders-application"], names=["orders-application"])
    assert masked("User:orders-application") == "User:orders-application"
    assert without_known("no: orders-application") == "no: ***"


def test_a_setting_from_a_reference_is_not_masked_in_results() -> None:
    remember(settings=["broker-a:9092"])
    assert masked("broker-a:9092") == "broker-a:9092"
    assert without_known("broker-a:9092") == "***"
    forget()
    assert without_known("broker-a:9092") == "broker-a:9092"


def test_no_journal_holds_a_secret(tmp_path: Path) -> None:
    secret = 'hunter2/"planted'
    remember([secret])
    entry = {"entry": "x", "message": f"curl http://u:{secret}@h", "more": [{"a": (secret, 7)}]}
    hidden = {"entry": "x", "message": "curl http://u:***@h", "more": [{"a": ["***", 7]}]}
    (line,) = run_state.seal([entry], run_state.first_head("run"))
    assert run_state.parse_line(line).entry == hidden == masked_document(entry)
    with JournalFile(tmp_path, "20260305T142007Z-main", "") as journal:
        journal.append([entry])
        assert json.loads(Path(journal.where).read_bytes()) == hidden


def test_no_page_shows_a_secret() -> None:
    result = gaps.not_complete()
    name = result.link
    assert name in render(result)
    remember([f"{name}-with-a-secret"])
    renamed = replace(result, link=f"{name}-with-a-secret")
    assert "with-a-secret" not in render(renamed)


def test_secrets_of_a_file_are_masked_after_loading() -> None:
    text = (
        "clusters:\n"
        "  primary:\n"
        "    bootstrap: a:1\n"
        "    properties: {sasl.username: same-as-user, sasl.password: same-as-user}\n"
        "  secondary: {bootstrap: 'b:1', properties: {ssl.key.password: a-planted-one}}\n"
        "links:\n"
        "  main: {from: primary, to: secondary, topics: [t], replicator: {kind: mirrormaker2,\n"
        "    connect: 'http://u:p%2Fplanted@c:1', connectors: {source: mm2}}}\n"
    )
    config = read(text, Path("x.yaml"))
    config.keep_hidden()
    assert masked("a-planted-one p/planted p%2Fplanted same-as-user") == "*** *** *** same-as-user"


def test_spark_redacts_at_least_its_defaults() -> None:
    pytest.importorskip("pyspark")
    import re

    from drctl.spark.session import REDACTED

    own = re.compile(REDACTED.removeprefix("(?i)"), re.IGNORECASE)
    for name in (
        *("secret", "password", "token", "accesskey", "access.key", "credential"),
        *("fs.azure.account.key.x", "ssl.key.pem", "PGPASS", "MY_AUTH", "keystore", "jaas"),
    ):
        assert own.search(f"spark.hadoop.{name}") or own.search(name), name
    assert SECRET_NAME in REDACTED
