"""The kinds of endpoints: the settings of each, and the factories of its reader and writer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from drctl.config.endpoints import SECTIONS, EndpointConfig, Section
from drctl.config.link import Link
from drctl.config.secret import Secret
from drctl.model.endpoints import EndpointReader, EndpointWriter
from drctl.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an endpoint needs besides its own settings.

    Attributes:
        folder: directory of drctl.yaml, for relative paths.
        environ: environment for `${env:NAME}`.
    """

    link: Link
    folder: Path
    environ: Mapping[str, str]

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of both clusters of the link."""
        return self.link.source, self.link.target

    def path(self, name: str) -> Path:
        """Resolve a file name from the configuration."""
        return self.folder / Path(name).expanduser()

    def bootstrap_of(self, cluster: str) -> str:
        """The bootstrap servers of one cluster of the link.

        Raises:
            ConfigError: they are a secret, which may not be written to a file for clients.
        """
        link = self.link
        ends = {link.source: link.source_config, link.target: link.target_config}
        setting = ends[cluster].bootstrap
        value = setting.resolve(self.environ)
        if isinstance(value, Secret):
            raise ConfigError(
                f"{setting.place}: is a secret, which drctl does not write to a file for clients",
                "set `clusters` of the endpoint to the bootstrap servers of each cluster",
            )
        return value


Halves = tuple[Callable[[], EndpointReader], Callable[[], EndpointWriter]]
"""Factories of reader and writer; they are separate, so that a reader cannot write."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of endpoint.

    Attributes:
        section: type of its settings.
        open: creates both factories from settings.
    """

    section: type[Section]
    open: Callable[[Any, Surroundings], Halves]


def open_reader(endpoint: EndpointConfig, around: Surroundings) -> EndpointReader:
    """The reader of an endpoint; it connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    return KINDS[endpoint.kind].open(endpoint, around)[0]()


def open_writer(endpoint: EndpointConfig, around: Surroundings) -> EndpointWriter:
    """The writer of an endpoint; it connects on first use.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    return KINDS[endpoint.kind].open(endpoint, around)[1]()


def _dns(settings: Any, around: Surroundings) -> Halves:
    from drctl.endpoints.dns import DnsReader, DnsWriter, opened

    server = opened(settings, around.environ)
    return partial(DnsReader, settings, server), partial(DnsWriter, settings, server)


def _haproxy(settings: Any, around: Surroundings) -> Halves:
    from drctl.endpoints.haproxy import HaproxyReader, HaproxyWriter, opened

    api = opened(settings, around.path)
    return partial(HaproxyReader, settings, api), partial(HaproxyWriter, settings, api)


def _file(settings: Any, around: Surroundings) -> Halves:
    from drctl.endpoints.file import FileReader, FileWriter, contents_of

    path = around.path(settings.path)
    contents = contents_of(settings, around.bootstrap_of, around.clusters)
    return partial(FileReader, path, contents), partial(FileWriter, path, contents)


def _command(settings: Any, around: Surroundings) -> Halves:
    from drctl.endpoints.command import CommandReader, CommandWriter, opened

    needs = settings, around.clusters, opened(settings, around.folder, around.environ)
    return partial(CommandReader, *needs), partial(CommandWriter, *needs)


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "dns": Kind(SECTIONS["dns"], _dns),
        "haproxy": Kind(SECTIONS["haproxy"], _haproxy),
        "file": Kind(SECTIONS["file"], _file),
        "command": Kind(SECTIONS["command"], _command),
    }
)
