"""Authentication of drctl at a Connect worker, TLS trust, and what is never shown."""

import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drctl.app.adapters import connect_access, open_connect
from drctl.config.configuration import Config
from drctl.config.fields import for_commands, web_address
from drctl.config.loading import load
from drctl.connect.client import Access, ConnectReader, ConnectRejected
from drctl.model.errors import ConfigError, Unreachable
from tests.connect.raw_server import Served, answer, raw_server
from tests.kafka.certificates import Authority, Certificate, make_authority

ODD = ("p/q", "p#q", "p?q", "p[q", "p]q", "p@q", "p:q", "p,q", "p q", "ä€", "p%2Fq", "")


def header(request: bytes, name: str) -> str | None:
    lines = request.decode("latin-1").split("\r\n")
    found = [x.partition(": ")[2] for x in lines if x.lower().startswith(f"{name.lower()}: ")]
    return found[0] if found else None


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def guarded() -> Iterator[Served]:
    """Accept requests with basic authentication; respond 401 to others."""

    def handle(sock: socket.socket, request: bytes) -> None:
        known = header(request, "Authorization")
        page = answer(b"<html>401</html>", "401 Unauthorized", 'WWW-Authenticate: Basic realm="x"')
        sock.sendall(answer(b'["a"]') if known else page)

    with raw_server(handle) as served:
        yield served


@pytest.mark.parametrize("password", ODD)
def test_credentials_in_a_url_are_sent_as_a_header(guarded: Served, password: str) -> None:
    client = ConnectReader(guarded.url(f"jane@corp:{password}") + "/")
    assert client.connectors() == ("a",)
    sent = "p/q" if password == "p%2Fq" else password
    (request,) = guarded.requests
    assert header(request, "Authorization") == basic("jane@corp", sent)
    assert header(request, "Host") == guarded.place
    assert request.startswith(b"GET /connectors HTTP/1.1\r\n")


def test_rejected_credentials_name_the_setting(guarded: Served) -> None:
    with pytest.raises(ConnectRejected, match="answered 401 to GET /connectors") as caught:
        ConnectReader(guarded.url()).connectors()
    assert "connect_access" in caught.value.hint


def test_user_and_headers_of_the_access(guarded: Served) -> None:
    access = Access("jane", "p:%41/@", {"X-Tenant": "blue"})
    assert ConnectReader(guarded.url(), access=access).connectors() == ("a",)
    (request,) = guarded.requests
    assert header(request, "Authorization") == basic("jane", "p:%41/@")
    assert header(request, "X-Tenant") == "blue"
    token = Access(headers={"Authorization": "Bearer abc"})
    assert ConnectReader(guarded.url(), access=token).connectors() == ("a",)
    assert header(guarded.requests[-1], "Authorization") == "Bearer abc"


@pytest.mark.parametrize(
    ("url", "access"),
    [
        ("http://u:planted@h", Access("jane", "planted")),
        ("http://h", Access("jane", "planted", {"authorization": "planted"})),
        ("http://h", Access("ja:ne", "planted")),
        ("http://h", Access(headers={"X-Key": "planted\r\nX-More: 1"})),
        ("http://h", Access(headers={"X-Key": "plänted"})),
        ("http://h", Access(headers={"Content-Length": "planted"})),
        ("http://u:planted\ud800@h", Access()),
        ("https://h", Access(ca="/absent")),
        ("https://h", Access(ca="\x00\ud800")),
        ("https://h", Access(certificate="-----BEGIN planted\ud800")),
        ("https://h", Access(ca="-----BEGIN CERTIFICATE-----\nplanted")),
        ("https://h", Access(certificate="/absent", key="/absent")),
        ("https://h", Access(certificate="-----BEGIN x-----planted", key_password="planted")),
    ],
)
def test_invalid_access_settings(url: str, access: Access) -> None:
    assert "planted" not in repr(access)
    with pytest.raises(ConfigError) as caught:
        ConnectReader(url, access=access).connectors()
    assert "planted" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("text", "shown", "user", "password"),
    [
        ("http://connect:8083", "http://connect:8083", None, ""),
        ("HTTPS://connect/base/", "https://connect/base", None, ""),
        ("http://u:a/b#c?d[e@f@[::1]:83/x", "http://[::1]:83/x", "u", "a/b#c?d[e@f"),
        ("http://token@h", "http://h", "token", ""),
        ("http://u%40x:p%2f@h", "http://h", "u@x", "p/"),
        ("http://:p@h", "http://h", "", "p"),
        ("http://u:12/34@h:1", "http://h:1", "u", "12/34"),
    ],
)
def test_a_url_is_read_up_to_its_last_at(
    text: str, shown: str, user: str | None, password: str
) -> None:
    found = web_address(text)
    assert (str(found), found.user, found.password) == (shown, user, password)
    assert "password" not in repr(found)


@pytest.mark.parametrize(
    "text",
    ["", "connect:8083", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://h:x",
     "http://h?x=1", "http://h/#f", "http://h h", "http://h/\n", "http://[::1", "http://u:planted@",
     "http://u:planted@h[", "http://u:planted@h:p", "http://-\x00", "http://" + "a" * 64],
)  # fmt: skip
def test_invalid_urls(text: str) -> None:
    with pytest.raises(ValueError, match=r"^must be a URL, for example http://connect:8083$"):
        web_address(text)


@given(st.text(), st.text())
def test_credentials_are_never_parsed_as_a_host(user: str, password: str) -> None:
    found = web_address(f"http://{user}:{password}@connect.example:8083/base")
    assert (found.host, found.port, found.path) == ("connect.example", 8083, "/base")
    assert str(found) == "http://connect.example:8083/base"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("own"), "own-ca")


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Certificate:
    return authority.issue("worker")


@pytest.fixture
def secure(authority: Authority, issued: Certificate) -> Iterator[Served]:
    """Require a client certificate of the same authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.chain, issued.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.certificate)
    with raw_server(lambda sock, _: sock.sendall(answer(b'["a"]')), context) as served:
        yield served


def config_with(folder: Path, url: str, access: str) -> Config:
    (folder / "drctl.yaml").write_text(
        "clusters: {primary: {bootstrap: 'a:1'}, secondary: {bootstrap: 'b:1'}}\n"
        "links: {main: {from: primary, to: secondary, topics: [t], replicator: {\n"
        f"  kind: mirrormaker2, connectors: {{source: s}}, connect: '{url}',\n"
        f"  connect_access: {access}}}}}}}\n"
    )
    return load(folder / "drctl.yaml")


def reader(config: Config, timeout_s: float = 5) -> ConnectReader:
    found = open_connect(ConnectReader, config.link("main").settings.replicator, timeout_s)
    assert found is not None
    return found


@pytest.mark.slow
def test_custom_certificates(
    secure: Served, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = authority.issue("client")
    locked = mine.rewritten_key("pkcs8", "-topk8", "-v2", "aes256", "-passout", "pass:open-it")
    for name, file in (("ca.pem", authority.certificate), ("mine.pem", mine.chain)):
        (tmp_path / name).write_text(file.read_text())
    (tmp_path / "both.pem").write_text(mine.chain.read_text() + mine.key.read_text())
    monkeypatch.setenv("KEY", mine.key.read_text())
    monkeypatch.setenv("CA", "ca.pem")
    url = secure.url(scheme="https")
    for access in (
        f"{{ca: ca.pem, certificate: mine.pem, key: '{mine.key}'}}",
        "{ca: '${file:ca.pem}', certificate: '${file:mine.pem}', key: '${env:KEY}'}",
        "{ca: '${env:CA}', certificate: both.pem}",
        f"{{ca: ca.pem, certificate: mine.pem, key: '{locked}', key_password: open-it}}",
    ):
        assert reader(config_with(tmp_path, url, access)).connectors() == ("a",), access
    wrong = f"{{ca: ca.pem, certificate: mine.pem, key: '{locked}', key_password: no}}"
    with pytest.raises(ConfigError, match=r"certificate: .*mine\.pem and its key cannot be used"):
        reader(config_with(tmp_path, url, wrong)).connectors()
    with pytest.raises(Unreachable, match="its certificate is not trusted"):
        reader(config_with(tmp_path, url, "{}")).connectors()
    with pytest.raises(Unreachable, match=r"did not answer within 5 s"):
        reader(config_with(tmp_path, url, "{ca: ca.pem}")).connectors()


def test_a_handshake_that_hangs_has_the_same_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match=r"did not answer within 0\.3 s$"):
            ConnectReader(url, timeout_s=0.3).connectors()


def test_access_settings_may_be_secrets(
    guarded: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "p@/#w")
    access = "{user: jane, password: '${env:PW}', headers: {X-Api-Key: planted, X-T: blue}}"
    config = config_with(tmp_path, guarded.url(), access)
    assert reader(config).connectors() == ("a",)
    (request,) = guarded.requests
    assert header(request, "Authorization") == basic("jane", "p@/#w")
    assert header(request, "X-Api-Key") == "planted"
    shown = str(config.redacted()) + repr(config)
    assert "planted" not in shown
    assert "blue" in shown
    assert any("plain http" in warning for warning in config.warnings())
    quiet = config_with(tmp_path, "https://c:1", access)
    assert not any("plain http" in warning for warning in quiet.warnings())


def test_a_password_over_plain_http_causes_a_warning(tmp_path: Path) -> None:
    config = config_with(tmp_path, "${env:URL}", "{}")
    (warning,) = config.warnings({"URL": "http://u:planted@h:1"})
    assert warning.endswith("a password is sent over plain http: use https")
    assert "links.main.replicator.connect" in warning
    assert config.warnings({"URL": "http://h:1"}) == config.warnings() == ()


@pytest.mark.parametrize(
    ("access", "message"),
    [
        ("{password: planted}", "connect_access.user: is required with `password`"),
        ("{user: jane}", "connect_access.password: is required with `user`"),
        ("{key: a.pem}", "connect_access.certificate: is required with `key`"),
        ("{passwort: planted}", "connect_access.passwort: is unknown; did you mean 'password'?"),
        ("{headers: {'a b': planted}}", "connect_access.headers"),
        ("{password: [planted]}", "connect_access.password"),
    ],
)
def test_conflicting_settings(tmp_path: Path, access: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_with(tmp_path, "http://c:1", access)
    assert message in caught.value.message
    assert "planted" not in caught.value.message


@pytest.mark.parametrize(
    ("access", "setting", "file"),
    [
        ("{ca: absent.pem}", "ca", "absent.pem cannot be used"),
        ("{certificate: absent.pem}", "certificate", "absent.pem and its key cannot be used"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, access: str, setting: str, file: str
) -> None:
    config = config_with(tmp_path, "https://c:1", access)
    with pytest.raises(ConfigError) as caught:
        connect_access(config.link("main").settings.replicator.connect_access).context()
    place, _, reason = caught.value.message.partition(f"connect_access.{setting}: ")
    assert place.startswith(f"{tmp_path / 'drctl.yaml'}:4:")
    assert str(tmp_path / file) in reason


def test_a_user_with_a_colon_is_reported_with_its_line(tmp_path: Path) -> None:
    config = config_with(tmp_path, "https://c:1", "{user: 'a:b', password: p}")
    with pytest.raises(ConfigError, match=r"drctl\.yaml:4:.*connect_access\.user: must not"):
        reader(config)


def test_printed_commands_have_no_credentials(tmp_path: Path) -> None:
    for url, printed in (
        ("http://u:p/w@c:1/", "http://c:1"),
        ("http://u:${env:P}@c:1", "http://c:1"),
        ("${env:URL}", ""),
        ("http://${env:HOST}:1", ""),
    ):
        config = config_with(tmp_path, url, "{}")
        assert for_commands(config.link("main").settings.replicator.connect) == printed
    assert for_commands(None) == ""
