"""The kinds of single values in drctl.yaml, each with the words that refuse a wrong one."""

import re
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from drctl.config.client_properties import objection
from drctl.config.hosts import is_host
from drctl.config.setting import Setting
from drctl.config.web_address import web_address

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
