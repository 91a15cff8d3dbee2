"""librdkafka's security properties on a socket of our own."""

import ssl
from pathlib import Path

import pytest

from drctl.kafka.broker_socket import Login, broker_security
from drctl.model.errors import ConfigError
from tests.kafka.certificates import Authority, Certificate, make_authority

SASL = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "app",
    "sasl.password": "word",
}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tls"), "ca")


@pytest.fixture(scope="module")
def alice(authority: Authority) -> Certificate:
    return authority.issue("alice")


def test_without_security() -> None:
    found = broker_security({"bootstrap.servers": "h:1"})
    assert (found.tls, found.login) == (None, None)


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_whose_password_is_not_shown(name: str) -> None:
    given = {name if key == "sasl.mechanism" else key: value for key, value in SASL.items()}
    found = broker_security(given)
    assert found.login == Login("SCRAM-SHA-512", "app", "word")
    assert "word" not in repr(found)


def test_tls_checks_certificates_and_names(authority: Authority) -> None:
    given = {"security.protocol": "SSL", "ssl.ca.location": str(authority.certificate)}
    found = broker_security(given).tls
    assert found is not None
    assert (found.check_hostname, found.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert [ca["subject"] for ca in found.get_ca_certs()] == [((("commonName", "ca"),),)]


def test_names_or_all_can_be_left_unchecked(authority: Authority) -> None:
    given = {"security.protocol": "SSL", "ssl.ca.pem": authority.certificate.read_text()}
    names = broker_security({**given, "ssl.endpoint.identification.algorithm": "none"}).tls
    assert names is not None
    assert (names.check_hostname, names.verify_mode) == (False, ssl.CERT_REQUIRED)
    nothing = broker_security({**given, "enable.ssl.certificate.verification": "false"}).tls
    assert nothing is not None
    assert (nothing.check_hostname, nothing.verify_mode) == (False, ssl.CERT_NONE)


def test_a_certificate_of_our_own_from_files_or_inline(alice: Certificate) -> None:
    protected = alice.rewritten_key("pkcs8", "-topk8", "-passout", "pass:word")
    for given in (
        {"ssl.certificate.location": str(alice.chain), "ssl.key.location": str(alice.key)},
        {"ssl.certificate.pem": alice.chain.read_text(), "ssl.key.pem": alice.key.read_text()},
        {
            "ssl.certificate.location": str(alice.chain),
            "ssl.key.pem": protected.read_text(),
            "ssl.key.password": "word",
        },
    ):
        assert broker_security({"security.protocol": "SSL", **given}).tls is not None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol TLS is none"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "cannot log in with sasl.mechanism GSSAPI"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "mechanism OAUTHBEARER"),
        ({**SASL, "sasl.password": ""}, "needs sasl.username and sasl.password"),
        ({"ssl.keystore.location": "k.p12"}, "no PKCS#12"),
        ({"ssl.crl.location": "crl.pem"}, "do not know ssl.crl.location"),
        ({"ssl.ca.location": "/no/such/file"}, r"ssl.ca.location \(/no/such/file\) cannot be used"),
        ({"ssl.ca.pem": "nothing"}, "ssl.ca.pem cannot be used"),
        ({"ssl.cipher.suites": "NONSENSE"}, "ssl.cipher.suites cannot be used"),
        ({"ssl.key.location": "k"}, "ssl.certificate.location is missing"),
        ({"ssl.certificate.location": "/no/such"}, "certificate and key cannot be used"),
    ],
)
def test_what_cannot_be_translated_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        broker_security({"security.protocol": "SSL", **given})
    assert caught.value.hint


def test_a_wrong_password_of_a_key(alice: Certificate, tmp_path: Path) -> None:
    protected = alice.rewritten_key("pkcs8", "-topk8", "-passout", "pass:word")
    given = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(alice.chain),
        "ssl.key.location": str(protected),
        "ssl.key.password": "another",
    }
    with pytest.raises(ConfigError, match="certificate and key cannot be used") as caught:
        broker_security(given)
    assert "another" not in str(caught.value)
