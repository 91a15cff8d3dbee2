"""The kinds of single values in drctl.yaml, each with the words that refuse a wrong one."""

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
    """Whether it can be asked for: an IPv6 address in brackets, or labels of 1 to 63 characters."""
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
    "bootstrap.servers": "belongs into `bootstrap`, beside `properties`",
    "metadata.broker.list": "belongs into `bootstrap`, beside `properties`",
    "group.id": "drctl joins no consumer group",
    "group.instance.id": "drctl joins no consumer group",
    "group.protocol": "drctl joins no consumer group",
    "group.remote.assignor": "drctl joins no consumer group",
    "partition.assignment.strategy": "drctl joins no consumer group",
    "enable.auto.commit": "drctl commits no offsets behind your back",
    "auto.commit.interval.ms": "drctl commits no offsets behind your back",
    "enable.auto.offset.store": "drctl commits no offsets behind your back",
    "auto.offset.reset": "drctl reads exact offsets; a reset would hide that some are gone",
    "isolation.level": "drctl decides for each question which records count",
    "enable.partition.eof": "drctl decides where a scan ends",
    "allow.auto.create.topics": "drctl never creates a topic by looking at it",
    "transactional.id": "drctl sets it where it writes, to fence an older run of itself",
    "enable.idempotence": "drctl sets it where it writes",
    "acks": "drctl sets it where it writes",
    "request.required.acks": "drctl sets it where it writes",
    "plugin.library.paths": "drctl loads no libraries named in a configuration file",
    "ssl.providers": "drctl loads no libraries named in a configuration file",
    "ssl.engine.location": "drctl loads no libraries named in a configuration file",
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
    "key.deserializer": "nothing: drctl compares bytes",
    "value.deserializer": "nothing: drctl compares bytes",
    "key.serializer": "nothing: drctl compares bytes",
    "value.serializer": "nothing: drctl compares bytes",
}


def objection(name: str) -> str:
    """Why the property must not be set; empty where it may."""
    if name in _DECIDED_BY_DRCTL:
        return f"may not be set: {_DECIDED_BY_DRCTL[name]}"
    if name in _OF_JAVA_CLIENTS:
        return f"is a property of Java clients; librdkafka has {_OF_JAVA_CLIENTS[name]}"
    if name.endswith("_cb") or name in ("logger", "on_delivery", "on_commit"):
        return "takes a function, which a file cannot hold"
    if not name or any(not c.isprintable() or c.isspace() for c in name):
        return "is not the name of a librdkafka property"
    return ""


_URL = re.compile(r"(https?)://(?:(.*)@)?([^@]*)", re.DOTALL | re.IGNORECASE)
_PLACE = re.compile(r"(\[[^]]*\]|[^\[\]/:?#]+)(?::([0-9]{1,5}))?((?:/[!-\"$->A-~]*)?)")


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL of HTTP taken apart.

    Attributes:
        host: as a resolver takes it, an IPv6 address without brackets.
        place: `HOST` or `HOST:PORT`, as written.
        path: in front of whatever is asked; empty, or begins with `/` and does not end so.
        user: None where the URL names nobody.
        password: not for any output.
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
        """Whether what is sent there is encrypted."""
        return self.scheme == "https"


def web_address(text: str) -> WebAddress:
    """Read a URL; up to its last `@` everything is user and password, whatever it holds.

    So a password may be written as it is, also with `/`, `#`, `?`, `[` and `@`; what is written
    as `%XX` is decoded. An `@` in a path has to be written as `%40`.

    Raises:
        ValueError: it is no URL of HTTP. The message holds nothing of the text.
    """
    whole = _URL.fullmatch(text)
    found = _PLACE.fullmatch(whole[3]) if whole else None
    if whole is None or found is None:
        raise ValueError(NOT_ONE)
    host, port, path = found.groups()
    secure = whole[1].lower() == "https"
    number = int(port) if port else 443 if secure else 80
    if not is_host(host) or not 0 < number < 65536:
        raise ValueError(NOT_ONE)
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


NOT_ONE = "must be a URL such as http://connect:8083"


T = TypeVar("T")

UNCHANGED = "${topic}"
RECORD_FIELDS = ("key", "value", "headers", "timestamp")


def _checked_regex(text: str) -> str:
    try:
        with warnings.catch_warnings():
            # Python says of some that they may mean something else one day.
            warnings.simplefilter("ignore")
            re.compile(text)
    except (OverflowError, RecursionError):
        raise ValueError("is not a regular expression: it is beyond what can be matched") from None
    except re.error as error:
        where = "" if error.pos is None else f" at its character {error.pos + 1}"
        raise ValueError(f"is not a regular expression: {error.msg}{where}") from None
    return text


def _checked_rename(text: str) -> str:
    if UNCHANGED not in text:
        raise ValueError(f"must contain {UNCHANGED}, or all topics would become one")
    if "${" in text.replace(UNCHANGED, ""):
        raise ValueError(f"may refer to {UNCHANGED} only")
    return text


def _checked_identity(fields: tuple[str, ...]) -> tuple[str, ...]:
    for number, name in enumerate(fields):
        header = name.removeprefix("header:")
        if name not in RECORD_FIELDS and (header == name or not header):
            allowed = ", ".join(RECORD_FIELDS)
            raise ValueError(f"may hold {allowed} and header:NAME, not {name!r}")
        if name in fields[:number]:
            raise ValueError(f"names {name!r} twice")
        if header != name and "headers" in fields:
            raise ValueError(f"holds headers, of which {name!r} is a part")
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
            raise ValueError("must be HOST:PORT, or several with commas between")
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError("must be HOST:PORT, with a port from 1 to 65535")
    return setting


def checked_url(setting: Setting) -> Setting:
    """An http address.

    Raises:
        ValueError: it is none.
    """
    if setting.references:
        if not setting.raw.startswith(("http://", "https://", "${")):
            raise ValueError("must begin with http:// or https://")
        return setting
    web_address(setting.raw)
    return setting


def for_commands(urls: Sequence[Setting] | None) -> str:
    """The first URL as commands are printed with it, without user and password.

    Empty where none is given, or another place says it: `connector_url` then names a variable.
    """
    try:
        return str(web_address(urls[0].raw)) if urls else ""
    except ValueError:
        return ""


def _checked_property(name: str) -> str:
    if reason := objection(name):
        raise ValueError(reason)
    return name


def _several(value: object) -> object:
    return value if isinstance(value, tuple) or value is None else (value,)


def frozen(value: Mapping[str, T]) -> Mapping[str, T]:
    """The mapping, closed to changes."""
    return MappingProxyType(dict(value))


def empty() -> Mapping[str, T]:
    """What an absent mapping holds."""
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
