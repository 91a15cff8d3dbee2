"""The kinds of endpoints: of each its section of drctl.yaml, and what opens its two halves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    """What an endpoint needs to know beside its own settings.

    Attributes:
        folder: of drctl.yaml; relative names start there.
        environ: what `${env:NAME}` refers to.
    """

    link: Link
    folder: Path
    environ: Mapping[str, str]

    @property
    def clusters(self) -> tuple[str, ...]:
        """The names of both ends of the link."""
        return self.link.source, self.link.target

    def path(self, name: str) -> Path:
        """A file of the configuration."""
        return self.folder / Path(name).expanduser()

    def bootstrap_of(self, cluster: str) -> str:
        """Of one end of the link.

        Raises:
            ConfigError: it refers to something else, and may not be shown.
        """
        ends = {
            self.link.source: self.link.source_config,
            self.link.target: self.link.target_config,
        }
        setting = ends[cluster].bootstrap
        value = setting.resolve(self.environ)
        if isinstance(value, Secret):
            raise ConfigError(
                f"{setting.place}: is a secret, and cannot be what a file says to clients",
                "give the endpoint `clusters`",
            )
        return value


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of endpoint.

    Attributes:
        section: the settings that it takes.
    """

    section: type[Section]
    reader: Callable[[Any, Surroundings], EndpointReader]
    writer: Callable[[Any, Surroundings], EndpointWriter]


def open_reader(endpoint: EndpointConfig, around: Surroundings) -> EndpointReader:
    """What looks at an endpoint; connects when asked.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    return KINDS[endpoint.kind].reader(endpoint, around)


def open_writer(endpoint: EndpointConfig, around: Surroundings) -> EndpointWriter:
    """What changes an endpoint; connects when asked.

    Raises:
        ConfigError: a secret that the configuration refers to is missing, or cannot be used.
    """
    return KINDS[endpoint.kind].writer(endpoint, around)


def _dns_reader(settings: Any, around: Surroundings) -> EndpointReader:
    from drctl.endpoints.dns import DnsReader, opened

    return DnsReader(settings, opened(settings, around.environ))


def _dns_writer(settings: Any, around: Surroundings) -> EndpointWriter:
    from drctl.endpoints.dns import DnsWriter, opened

    return DnsWriter(settings, opened(settings, around.environ))


def _haproxy_reader(settings: Any, around: Surroundings) -> EndpointReader:
    from drctl.endpoints.haproxy import HaproxyReader, opened

    return HaproxyReader(settings, opened(settings, around.path))


def _haproxy_writer(settings: Any, around: Surroundings) -> EndpointWriter:
    from drctl.endpoints.haproxy import HaproxyWriter, opened

    return HaproxyWriter(settings, opened(settings, around.path))


def _file_reader(settings: Any, around: Surroundings) -> EndpointReader:
    from drctl.endpoints.file import FileReader, contents_of

    contents = contents_of(settings, around.bootstrap_of, around.clusters)
    return FileReader(around.path(settings.path), contents)


def _file_writer(settings: Any, around: Surroundings) -> EndpointWriter:
    from drctl.endpoints.file import FileWriter, contents_of

    contents = contents_of(settings, around.bootstrap_of, around.clusters)
    return FileWriter(around.path(settings.path), contents)


def _command_reader(settings: Any, around: Surroundings) -> EndpointReader:
    from drctl.endpoints.command import CommandReader, opened

    return CommandReader(settings, around.clusters, opened(settings, around.folder, around.environ))


def _command_writer(settings: Any, around: Surroundings) -> EndpointWriter:
    from drctl.endpoints.command import CommandWriter, opened

    return CommandWriter(settings, around.clusters, opened(settings, around.folder, around.environ))


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "dns": Kind(SECTIONS["dns"], _dns_reader, _dns_writer),
        "haproxy": Kind(SECTIONS["haproxy"], _haproxy_reader, _haproxy_writer),
        "file": Kind(SECTIONS["file"], _file_reader, _file_writer),
        "command": Kind(SECTIONS["command"], _command_reader, _command_writer),
    }
)
