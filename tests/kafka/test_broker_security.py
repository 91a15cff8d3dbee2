"""librdkafka's security properties on drctl's own connections."""

import json
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from drctl.kafka.broker_security import broker_security
from drctl.kafka.deadline import Deadline
from drctl.kafka.oauth import TokenSource
from drctl.kafka.sasl import Login, bearer
from drctl.model.errors import ConfigError, Unreachable
from tests.kafka.certificates import Authority, Certificate

SASL = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "app",
    "sasl.password": "word",
}


OIDC = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": "shh",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
}


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


def test_host_name_or_certificate_verification_can_be_disabled(authority: Authority) -> None:
    given = {"security.protocol": "SSL", "ssl.ca.pem": authority.certificate.read_text()}
    names = broker_security({**given, "ssl.endpoint.identification.algorithm": "none"}).tls
    assert names is not None
    assert (names.check_hostname, names.verify_mode) == (False, ssl.CERT_REQUIRED)
    nothing = broker_security({**given, "enable.ssl.certificate.verification": "false"}).tls
    assert nothing is not None
    assert (nothing.check_hostname, nothing.verify_mode) == (False, ssl.CERT_NONE)


def test_a_client_certificate_from_files_or_inline(alice: Certificate) -> None:
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
        ({"security.protocol": "TLS"}, "unknown security.protocol TLS"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism GSSAPI is not supported"),
        (
            {**SASL, "sasl.mechanism": "OAUTHBEARER"},
            "method oidc with a client secret only: method",
        ),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, "client.id and client.secret"),
        ({**OIDC, "sasl.oauthbearer.grant.type": "jwt"}, "grant.type"),
        ({**SASL, "sasl.password": ""}, "needs sasl.username and sasl.password"),
        ({"ssl.keystore.location": "k.p12"}, r"cannot open ssl.keystore.location \(k.p12\)"),
        ({"ssl.crl.location": "crl.pem"}, "do not support property ssl.crl.location"),
        ({"ssl.ca.location": "/no/such/file"}, r"cannot load ssl.ca.location \(/no/such/file\)"),
        ({"ssl.ca.pem": "nothing"}, "cannot load ssl.ca.pem"),
        ({"ssl.cipher.suites": "NONSENSE"}, "cannot load ssl.cipher.suites"),
        ({"ssl.key.location": "k"}, "ssl.certificate.location is missing"),
        ({"ssl.certificate.location": "/no/such"}, "cannot load the client's certificate and key"),
    ],
)
def test_untranslatable_properties_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        broker_security({"security.protocol": "SSL", **given})
    assert caught.value.hint


def test_a_client_certificate_from_pkcs12(alice: Certificate, tmp_path: Path) -> None:
    keystore = tmp_path / "alice.p12"
    command = ["openssl", "pkcs12", "-export", "-in", alice.chain, "-inkey", alice.key]
    subprocess.run([*command, "-out", keystore, "-passout", "pass:word"], check=True)
    given = {"security.protocol": "SSL", "ssl.keystore.location": str(keystore)}
    assert broker_security({**given, "ssl.keystore.password": "word"}).tls is not None
    with pytest.raises(ConfigError, match="cannot open") as caught:
        broker_security({**given, "ssl.keystore.password": "another"})
    assert "another" not in str(caught.value)


class Provider(BaseHTTPRequestHandler):
    """Gives known clients numbered tokens."""

    asked: ClassVar[list[tuple[str, str]]] = []
    life_s: ClassVar[int] = 3600
    response: ClassVar[bytes] = b""
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.headers["Authorization"], form))
        known = self.headers["Authorization"] == f"Basic {b64encode(b'me:shh').decode()}"
        body = {"access_token": f"token-{len(self.asked)}", "expires_in": self.life_s}
        self.send_response(self.status if known else 401)
        self.send_header("Location", f"{self.path}/elsewhere")
        self.end_headers()
        self.wfile.write(self.response or json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def provider() -> Iterator[type[Provider]]:
    kind = type("OwnProvider", (Provider,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        kind.url = f"http://127.0.0.1:{server.server_port}/token"  # type: ignore[attr-defined]
        yield kind
        server.shutdown()


def _source(provider: Any, **more: str) -> TokenSource:
    oidc = {**OIDC, "sasl.oauthbearer.token.endpoint.url": provider.url}
    found = broker_security({**oidc, **{f"sasl.oauthbearer.{k}": v for k, v in more.items()}}).login
    assert isinstance(found, TokenSource)
    return found


def test_a_token_is_requested_once_per_lifetime(provider: type[Provider]) -> None:
    source = _source(provider, scope="kafka", extensions="a=b,c=d")
    assert "shh" not in repr(source)
    assert [source.token(Deadline.after(5)) for _ in range(3)] == ["token-1"] * 3
    ((_, form),) = provider.asked
    assert form == "grant_type=client_credentials&scope=kafka"
    assert bearer("t", source.extensions) == b"n,,\x01auth=Bearer t\x01a=b\x01c=d\x01\x01"
    provider.life_s = 0
    other = _source(provider)
    assert [other.token(Deadline.after(5)) for _ in range(2)] == ["token-2", "token-3"]


def test_a_provider_that_rejects_the_client_or_is_down(provider: type[Provider]) -> None:
    with pytest.raises(ConfigError, match="HTTP 401") as refused:
        _source(provider, **{"client.secret": "wrong"}).token(Deadline.after(5))
    assert "wrong" not in str(refused.value)
    found = broker_security(OIDC).login
    assert isinstance(found, TokenSource)
    with pytest.raises(Unreachable, match="no token from"):
        found.token(Deadline.after(1))


def test_a_wrong_password_of_a_key(alice: Certificate, tmp_path: Path) -> None:
    protected = alice.rewritten_key("pkcs8", "-topk8", "-passout", "pass:word")
    given = {
        "security.protocol": "SSL",
        "ssl.certificate.location": str(alice.chain),
        "ssl.key.location": str(protected),
        "ssl.key.password": "another",
    }
    with pytest.raises(ConfigError, match="cannot load the client's certificate and key") as caught:
        broker_security(given)
    assert "another" not in str(caught.value)


@pytest.mark.parametrize(
    "response",
    [
        b" ",
        b"[1]",
        b'{"access_token": null}',
        b'{"access_token": ""}',
        b'{"access_token": "t", "expires_in": NaN}',
        b'{"access_token": "t", "expires_in": 1e999}',
        b'{"access_token": "t", "expires_in": -5}',
        b'{"access_token": "t", "expires_in": ' + b"9" * 400 + b"}",
        b'{"access_token": "t", "x": ' + b"[" * 100_000,
    ],
)
def test_a_response_without_a_token(provider: Any, response: bytes) -> None:
    provider.response = response
    with pytest.raises(Unreachable, match="no token from"):
        _source(provider).token(Deadline.after(5))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_do_not_follow_a_redirect(provider: Any, status: int) -> None:
    """By default, urllib turns a redirected POST into a GET that carries the credentials."""
    got: list[str] = []
    provider.do_GET = lambda handler: got.append(handler.headers["Authorization"])
    provider.status = status
    with pytest.raises(ConfigError, match=f"HTTP {status}"):
        _source(provider).token(Deadline.after(5))
    assert (len(provider.asked), got) == (1, [])
