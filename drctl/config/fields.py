"""Types of single values in drctl.yaml, with their error messages."""

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, TypeVar
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from drctl.config.setting import Setting

_IPV6 = re.compile(r"\[[0-9A-Fa-f:.%\w]+\]")
_NAME = re.compile(r"[\w.-]+")


def is_host(text: str) -> bool:
    """Whether it is an IPv6 address in brackets, or a host name of valid labels."""
    if _IPV6.fullmatch(text):
        return True
    if not _NAME.fullmatch(text):
        return False
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return text != "."


_DECIDED_BY_DRCTL = {
    "bootstrap.servers": "write it as `bootstrap`, next to `properties`",
    "metadata.broker.list": "write it as `bootstrap`, next to `properties`",
    "group.id": "drctl joins no consumer group",
    "group.instance.id": "drctl joins no consumer group",
    "group.protocol": "drctl joins no consumer group",
    "group.remote.assignor": "drctl joins no consumer group",
    "partition.assignment.strategy": "drctl joins no consumer group",
    "enable.auto.commit": "drctl commits only the offsets in its plan",
    "auto.commit.interval.ms": "drctl commits only the offsets in its plan",
    "enable.auto.offset.store": "drctl commits only the offsets in its plan",
    "auto.offset.reset": "drctl reads exact offsets; a reset would hide unreplicated records",
    "isolation.level": "drctl sets it for each read",
    "enable.partition.eof": "drctl sets it for each read",
    "allow.auto.create.topics": "drctl never creates topics when it reads",
    "transactional.id": "drctl sets it for writes, to fence an older run",
    "enable.idempotence": "drctl sets it for writes",
    "acks": "drctl sets it for writes",
    "request.required.acks": "drctl sets it for writes",
    "plugin.library.paths": "drctl loads no libraries from a configuration file",
    "ssl.providers": "drctl loads no libraries from a configuration file",
    "ssl.engine.location": "drctl loads no libraries from a configuration file",
    "key.deserializer": "drctl reads keys as bytes",
    "value.deserializer": "drctl reads values as bytes",
    "key.serializer": "drctl writes keys as bytes",
    "value.serializer": "drctl writes values as bytes",
}

_OF_JAVA_CLIENTS = {
    "sasl.jaas.config": "`sasl.username` and `sasl.password`",
    "sasl.login.callback.handler.class": "`sasl.oauthbearer.method`",
    "sasl.client.callback.handler.class": "`sasl.mechanism`",
    "ssl.truststore.location": "`ssl.ca.location` (PEM)",
    "ssl.truststore.certificates": "`ssl.ca.pem`",
    "ssl.truststore.password": "`ssl.ca.location`, a PEM file without password",
    "ssl.truststore.type": "`ssl.ca.location` (PEM)",
    "ssl.keystore.type": "`ssl.keystore.location` (PKCS#12), or `ssl.certificate.location`",
    "ssl.keystore.key": "`ssl.key.pem`",
    "ssl.keystore.certificate.chain": "`ssl.certificate.pem`",
    "ssl.protocol": "`ssl.cipher.suites` and the system's OpenSSL configuration",
    "ssl.enabled.protocols": "the system's OpenSSL configuration",
}


def refusal(name: str) -> str:
    """Why a property must not be set; empty if it may."""
    if name in _DECIDED_BY_DRCTL:
        return f"must not be set: {_DECIDED_BY_DRCTL[name]}"
    if name in _OF_JAVA_CLIENTS:
        return f"is a Java client property; for librdkafka, use {_OF_JAVA_CLIENTS[name]}"
    if name.endswith("_cb") or name in ("logger", "on_delivery", "on_commit"):
        return "requires a function and cannot be set in a file"
    if not name or any(not c.isprintable() or c.isspace() for c in name):
        return "is not a librdkafka property"
    return ""


_URL = re.compile(r"(https?)://(?:(.*)@)?([^@]*)", re.DOTALL | re.IGNORECASE)
_PLACE = re.compile(r"(\[[^]]*\]|[^\[\]/:?#]+)(?::([0-9]{1,5}))?((?:/[!-\"$->A-~]*)?)")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A parsed HTTP URL.

    Attributes:
        host: host name or address, without the brackets of an IPv6 address.
        place: `HOST` or `HOST:PORT`, as written.
        path: prefix of all requests; empty, or begins with `/` and does not end with `/`.
        user: None if the URL has none.
        password: never printed.
    """

    scheme: str
    host: str
    port: int
    place: str
    path: str = ""
    user: str | None = None
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        """The URL without user and password."""
        return f"{self.scheme}://{self.place}{self.path}"

    @property
    def secure(self) -> bool:
        """Whether requests are encrypted."""
        return self.scheme == "https"


def web_address(text: str) -> WebAddress:
    """Parse a URL; everything before its last `@` is user and password.

    Therefore a password may contain `/`, `#`, `?`, `[` and `@` unescaped; `%XX` is decoded. An
    `@` in a path must be written as `%40`.

    Raises:
        ValueError: it is not an HTTP URL. The message contains nothing of the text.
    """
    whole = _URL.fullmatch(text)
    found = _PLACE.fullmatch(whole[3]) if whole else None
    if whole is None or found is None:
        raise ValueError(NOT_A_URL)
    host, port, path = found.groups()
    secure = whole[1].lower() == "https"
    number = int(port) if port else 443 if secure else 80
    if not is_host(host) or not 0 < number < 65536:
        raise ValueError(NOT_A_URL)
    user, _, password = (whole[2] or "").partition(":")
    return WebAddress(
        whole[1].lower(),
        host.strip("[]"),
        number,
        host + (f":{port}" if port else ""),
        path.rstrip("/"),
        None if whole[2] is None else unquote(user),
        unquote(password),
    )


NOT_A_URL = "must be a URL, for example http://connect:8083"


T = TypeVar("T")

UNCHANGED = "${topic}"
RECORD_FIELDS = ("key", "value", "headers", "timestamp")


def _checked_regex(text: str) -> str:
    try:
        with warnings.catch_warnings():
            # Python warns that the meaning of some may change.
            warnings.simplefilter("ignore")
            re.compile(text)
    except (OverflowError, RecursionError):
        raise ValueError("is not a usable regular expression: too complex") from None
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise ValueError(f"is not a valid regular expression: {error.msg}{where}") from None
    return text


def _checked_rename(text: str) -> str:
    if UNCHANGED not in text:
        raise ValueError(f"must contain {UNCHANGED}: otherwise all topics get the same name")
    if "${" in text.replace(UNCHANGED, ""):
        raise ValueError(f"may reference {UNCHANGED} only")
    return text


def _checked_identity(fields: tuple[str, ...]) -> tuple[str, ...]:
    for number, name in enumerate(fields):
        header = name.removeprefix("header:")
        if name not in RECORD_FIELDS and (header == name or not header):
            allowed = ", ".join(RECORD_FIELDS)
            raise ValueError(f"may contain {allowed} and header:NAME, but not {name!r}")
        if name in fields[:number]:
            raise ValueError(f"contains {name!r} twice")
        if header != name and "headers" in fields:
            raise ValueError(f"contains headers, which includes {name!r}")
    return fields


def _checked_bootstrap(setting: Setting) -> Setting:
    if setting.references:
        return setting
    for broker in setting.raw.split(","):
        address = broker.strip().rpartition("://")[2]
        host, colon, port = address.rpartition(":")
        if address.endswith("]") or not colon:
            host, port = address, "9092"
        if not is_host(host):
            raise ValueError("must be HOST:PORT, or several separated by commas")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("must be HOST:PORT, with a port from 1 to 65535")
    return setting


def checked_url(setting: Setting) -> Setting:
    """Check the URL of a Connect worker.

    Raises:
        ValueError: it is not an HTTP URL.
    """
    if setting.references:
        if not setting.raw.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://")
        return setting
    web_address(setting.raw)
    return setting


def for_commands(urls: Sequence[Setting] | None) -> str:
    """The first URL for printed commands, without user and password.

    Empty if there is none, or if it is a reference: `connector_url` then names a variable.
    """
    try:
        return str(web_address(urls[0].raw)) if urls else ""
    except ValueError:
        return ""


def _checked_property(name: str) -> str:
    if reason := refusal(name):
        raise ValueError(reason)
    return name


def _several(value: object) -> object:
    return value if isinstance(value, tuple) or value is None else (value,)


def frozen(value: Mapping[str, T]) -> Mapping[str, T]:
    """Return a read-only copy of the mapping."""
    return MappingProxyType(dict(value))


def empty() -> Mapping[str, T]:
    """Return the default of an optional mapping."""
    return MappingProxyType({})


Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Text = Annotated[str, StringConstraints(min_length=1)]
Regex = Annotated[Text, AfterValidator(_checked_regex)]
Rename = Annotated[Text, AfterValidator(_checked_rename)]
Url = Annotated[Setting, AfterValidator(checked_url)]
Urls = Annotated[tuple[Url, ...], BeforeValidator(_several), Field(min_length=1)]
Principal = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]+:.+$")]
PropertyName = Annotated[str, AfterValidator(_checked_property)]
Settings = Annotated[Mapping[Text, Setting], AfterValidator(frozen)]
Bootstrap = Annotated[Setting, AfterValidator(_checked_bootstrap)]
Properties = Annotated[Mapping[PropertyName, Setting], AfterValidator(frozen)]
Identity = Annotated[tuple[str, ...], AfterValidator(_checked_identity), Field(min_length=1)]
Words = Annotated[tuple[Text, ...], BeforeValidator(_several)]
