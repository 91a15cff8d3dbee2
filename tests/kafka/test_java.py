"""java_properties: what becomes of each kind of property. Real Java clients: test_java_client."""

from pathlib import Path

import pytest

from drctl.kafka.java_properties import java_properties
from drctl.model.errors import ConfigError
from tests.kafka.certificates import Authority, Certificate

BROKERS = {"bootstrap.servers": "a:9092,b:9092"}
PLAIN = {
    **BROKERS,
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "app",
    "sasl.password": "pw",
}
OIDC = {
    **BROKERS,
    "security.protocol": "sasl_plaintext",
    "sasl.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "shh",
    "sasl.oauthbearer.token.endpoint.url": "https://login/token",
}


def with_key(alice: Certificate, key: Path, **more: str) -> dict[str, str]:
    return {
        **BROKERS,
        "security.protocol": "SSL",
        "ssl.certificate.location": str(alice.chain),
        "ssl.key.location": str(key),
        **more,
    }


def test_an_open_cluster_needs_its_addresses_only() -> None:
    assert java_properties(BROKERS) == {**BROKERS, "security.protocol": "PLAINTEXT"}


def test_names_that_differ_are_translated_and_those_that_agree_kept() -> None:
    given = {
        "metadata.broker.list": "a:9092",
        "client.id": "drctl",
        "socket.timeout.ms": "7000",
        "fetch.wait.max.ms": "100",
        "fetch.message.max.bytes": "4096",
        "fetch.max.bytes": "8192",
        "socket.receive.buffer.bytes": "0",
        "connections.max.idle.ms": "0",
        "client.rack": "az1",
    }
    assert java_properties(given) == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "PLAINTEXT",
        "client.id": "drctl",
        "request.timeout.ms": "7000",
        "fetch.max.wait.ms": "100",
        "max.partition.fetch.bytes": "4096",
        "fetch.max.bytes": "8192",
        "receive.buffer.bytes": "-1",
        "connections.max.idle.ms": "-1",
        "client.rack": "az1",
    }


@pytest.mark.parametrize(
    "key",
    [
        "group.id",
        "isolation.level",
        "auto.offset.reset",
        "enable.auto.commit",
        "log_level",
        "debug",
        "statistics.interval.ms",
        "queued.min.messages",
        "message.max.bytes",
    ],
)
def test_drctls_own_and_librdkafka_only_properties_are_omitted(key: str) -> None:
    assert key not in java_properties({**BROKERS, key: "1"})


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [
        ("PLAIN", "plain.PlainLoginModule"),
        ("SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_user_and_password_become_a_login(mechanism: str, module: str) -> None:
    translated = java_properties({**PLAIN, "sasl.mechanism": mechanism})
    assert translated["sasl.mechanism"] == mechanism
    assert translated["sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="app" password="pw";'
    )
    assert "sasl.password" not in translated


def test_a_password_cannot_break_out_of_its_quotes() -> None:
    translated = java_properties({**PLAIN, "sasl.password": 'a"; evil="\\\n;'})
    assert translated["sasl.jaas.config"].endswith(r'password="a\"; evil=\"\\\n;";')


def test_credentials_of_another_protocol_are_dropped() -> None:
    assert "pw" not in str(java_properties({**PLAIN, "security.protocol": "PLAINTEXT"}))


@pytest.mark.parametrize("key", ["sasl.username", "sasl.password"])
def test_a_missing_credential_is_named(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        java_properties({k: v for k, v in PLAIN.items() if k != key})


def test_oidc_maps_to_javas_own_login() -> None:
    given = {**OIDC, "sasl.oauthbearer.scope": "kafka", "sasl.oauthbearer.extensions": "a=b,c=d"}
    translated = java_properties(given)
    assert translated["sasl.oauthbearer.token.endpoint.url"] == "https://login/token"
    assert translated["sasl.login.callback.handler.class"].endswith(
        "oauthbearer.OAuthBearerLoginCallbackHandler"
    )
    assert translated["sasl.jaas.config"].endswith(
        'required clientId="me" clientSecret="shh" scope="kafka" extension_a="b" extension_c="d";'
    )


def test_kerberos_takes_keytab_or_ticket_cache() -> None:
    given = {**BROKERS, "security.protocol": "SASL_PLAINTEXT"}
    assert "useTicketCache" in java_properties(given)["sasl.jaas.config"]
    with_keytab = {
        **given,
        "sasl.kerberos.keytab": "/k",
        "sasl.kerberos.principal": "me@REALM",
        "sasl.kerberos.service.name": "broker",
    }
    translated = java_properties(with_keytab)
    assert 'keyTab="/k" principal="me@REALM"' in translated["sasl.jaas.config"]
    assert translated["sasl.kerberos.service.name"] == "broker"
    assert translated["sasl.mechanism"] == "GSSAPI"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({**PLAIN, "sasl.mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM"),
        ({**OIDC, "sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method"),
        ({**OIDC, "sasl.oauthbearer.grant.type": "jwt"}, "sasl.oauthbearer.grant.type"),
        ({**OIDC, "https.ca.location": "ca.pem"}, "https.ca.location"),
        ({**BROKERS, "security.protocol": "ssl", "ssl.crl.location": "x"}, "ssl.crl.location"),
        ({**BROKERS, "security.protocol": "ssl", "ssl.cipher.suites": "x"}, "ssl.cipher.suites"),
        (
            {**BROKERS, "security.protocol": "ssl", "enable.ssl.certificate.verification": "false"},
            "enable.ssl.certificate.verification",
        ),
    ],
)
def test_security_that_cannot_be_translated_is_refused_by_name(
    given: dict[str, str], named: str
) -> None:
    with pytest.raises(ConfigError, match=named) as refused:
        java_properties(given)
    assert refused.value.hint


@pytest.mark.parametrize(("given", "wanted"), [("none", ""), ("https", "https")])
def test_host_names_are_checked_by_default(given: str, wanted: str) -> None:
    tls = {**BROKERS, "security.protocol": "SSL", "ssl.endpoint.identification.algorithm": given}
    assert java_properties(tls)["ssl.endpoint.identification.algorithm"] == wanted


def test_the_authority_goes_inline(authority: Authority) -> None:
    text = authority.certificate.read_text()
    tls = {**BROKERS, "security.protocol": "SSL"}
    from_file = java_properties({**tls, "ssl.ca.location": str(authority.certificate)})
    inline = java_properties({**tls, "ssl.ca.pem": f"remarks\n{text}"})
    assert from_file == inline
    assert inline["ssl.truststore.type"] == "PEM"
    assert inline["ssl.truststore.certificates"] == text
    assert "ssl.truststore.type" not in java_properties({**tls, "ssl.ca.location": "probe"})


@pytest.mark.slow
def test_certificate_and_key_go_inline(alice: Certificate) -> None:
    translated = java_properties(with_key(alice, alice.key, **{"ssl.key.password": "unused"}))
    assert translated["ssl.keystore.type"] == "PEM"
    assert translated["ssl.keystore.certificate.chain"] == alice.chain.read_text()
    assert translated["ssl.keystore.key"] == alice.key.read_text()
    assert "unused" not in translated.values()


@pytest.mark.parametrize(
    "command",
    [
        ("rsa", "-traditional"),
        ("rsa", "-traditional", "-aes256", "-passout", "pass:geheim"),
        ("pkcs8", "-topk8", "-passout", "pass:geheim"),
    ],
)
def test_a_key_that_java_cannot_read_is_converted(
    alice: Certificate, command: tuple[str, ...]
) -> None:
    key = alice.rewritten_key(*command)
    translated = java_properties(with_key(alice, key, **{"ssl.key.password": "geheim"}))
    assert translated["ssl.keystore.key"] == alice.key.read_text()
    assert "geheim" not in str(translated)


def test_without_openssl_such_a_key_is_refused_with_the_remedy(
    alice: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = alice.rewritten_key("rsa", "-traditional")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match=r"ssl\.key\.location") as refused:
        java_properties(with_key(alice, key))
    assert "openssl pkcs8 -topk8 -nocrypt" in refused.value.hint


def test_a_wrong_password_of_a_key_is_refused_without_showing_it(alice: Certificate) -> None:
    key = alice.rewritten_key("pkcs8", "-topk8", "-passout", "pass:geheim")
    with pytest.raises(ConfigError, match="cannot read the private key") as refused:
        java_properties(with_key(alice, key, **{"ssl.key.password": "daneben"}))
    assert "daneben" not in refused.value.message + refused.value.hint
    with pytest.raises(ConfigError, match=r"ssl\.key\.password is missing"):
        java_properties(with_key(alice, key))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.ca.location": "/no/such"}, "cannot read ssl.ca.location"),
        ({"ssl.ca.pem": "no certificate"}, r"ssl\.ca\.pem contains no certificate"),
        ({"ssl.certificate.pem": "x"}, r"ssl\.key\.location is missing"),
        ({"ssl.key.pem": "x"}, r"ssl\.certificate\.location is missing"),
    ],
)
def test_pem_that_cannot_be_used_is_named(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        java_properties({**BROKERS, "security.protocol": "SSL", **given})


def test_a_pkcs12_file_stays_a_file() -> None:
    given = {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "geheim"}
    translated = java_properties({**BROKERS, "security.protocol": "SSL", **given})
    assert translated["ssl.keystore.type"] == "PKCS12"
    assert translated["ssl.keystore.location"] == "/me.p12"
    assert translated["ssl.key.password"] == "geheim"
