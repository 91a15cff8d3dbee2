"""Files that hold secrets of a drctl.yaml, and the settings of applications that were given."""

import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.checks.client_config import ClientConfig, Library, library_of
from drctl.checks.surveyed import ClientSeen, SecretFile
from drctl.config.section import Section
from drctl.config.setting import Setting
from drctl.model.errors import UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link

_KEYS = re.compile(r"ssl\.(key|keystore)\.location|.*keytab")
_GIVEN = re.compile(
    r"(?P<file>.+)=(?P<library>java|librdkafka)-"
    r"(?P<release>(?P<major>\d+)\.(?P<minor>\d+)[\w.-]*)"
)


def secret_files(config: "Config") -> tuple[SecretFile, ...]:
    """Everything that drctl.yaml refers to and that is secret; itself, for it says who is who."""
    found = {str(config.path): "drctl.yaml"}
    for setting in _settings(config.file):
        for reference in setting.references:
            if reference.source == "file":
                path = setting.directory / Path(reference.name).expanduser()
                found[str(path)] = setting.place.rpartition(": ")[2]
    folder = config.path.parent
    for cluster in config.clusters.values():
        for name, setting in cluster.properties.items():
            if _KEYS.fullmatch(name) and not setting.references:
                found[str(folder / Path(setting.raw).expanduser())] = name
    holds = any(each.hidden and not each.references for each in _settings(config.file))
    rows = ((path, what, mode_of(Path(path))) for path, what in found.items())
    return tuple(
        # A drctl.yaml without a secret may be read by everybody, and be changed by nobody else.
        SecretFile(path, what, _write_bits(mode) if what == "drctl.yaml" and not holds else mode)
        for path, what, mode in rows
    )


def mode_of(path: Path) -> int | None:
    """A file's permissions; None where it is not there, or may not be looked at."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _write_bits(mode: int | None) -> int | None:
    return None if mode is None else mode & ~(stat.S_IRGRP | stat.S_IROTH)


def _settings(value: object) -> Iterator[Setting]:
    if isinstance(value, Setting):
        yield value
    elif isinstance(value, Section):
        for _, inner in value:
            yield from _settings(inner)
    elif isinstance(value, Mapping | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _settings(inner)


def applications(given: tuple[str, ...], link: "Link") -> tuple[ClientConfig, ...]:
    """The clients whose settings were given as `FILE` or `FILE=LIBRARY-VERSION`.

    Raises:
        UsageError: a file cannot be read, or nobody says whose library it is for.
    """
    return tuple(_application(text, link) for text in given)


def seen_clients(given: tuple[str, ...], configs: tuple[ClientConfig, ...]) -> Iterator[ClientSeen]:
    """The same in short, with the release as it was given."""
    for text, config in zip(given, configs, strict=True):
        told = _GIVEN.fullmatch(text)
        yield ClientSeen(config.subject, config.library.value, told["release"] if told else "")


def _application(text: str, link: "Link") -> ClientConfig:
    from drctl.wire.properties import read_properties

    told = _GIVEN.fullmatch(text)
    path = Path(told["file"] if told else text)
    try:
        values = read_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"--client {path}: it cannot be read: {why}") from None
    library = Library(told["library"]) if told else library_of(values)
    if library is None:
        raise UsageError(
            f"--client {path}: nothing in it tells whose settings these are",
            f"write --client {path}=java-3.9.1 or --client {path}=librdkafka-2.12.0",
        )
    version = (int(told["major"]), int(told["minor"])) if told else None
    endpoint = next(iter(link.settings.endpoints), None)
    if endpoint is None:
        return ClientConfig(path.name, library, values, version=version)
    names = (endpoint.record,) if endpoint.kind == "dns" else ()
    return ClientConfig(path.name, library, values, endpoint.kind, names, version)
