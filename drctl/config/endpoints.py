"""The endpoint sections of drctl.yaml, one for each kind."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from types import MappingProxyType
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from drctl.config.fields import Text, empty, frozen, is_host
from drctl.config.setting import Setting
from drctl.model.endpoints import ClientRedirect


class Section(BaseModel):
    """A mapping in the file. Frozen; its errors never contain the input."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


T = TypeVar("T")

EndpointKind = Literal["dns", "haproxy", "file", "command"]
RecordType = Literal["A", "AAAA", "CNAME", "SRV"]
TsigAlgorithm = Literal[
    "hmac-sha256", "hmac-sha512", "hmac-sha384", "hmac-sha224", "hmac-sha1", "hmac-md5"
]

CLUSTER = "{cluster}"
BOOTSTRAP = "{bootstrap}"

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_LONGEST_NAME = 253
_MOST_SECONDS = 2**31 - 1


def domain_name(text: str) -> str:
    """Normalize a domain name: lower case, with the trailing dot.

    Raises:
        ValueError: it is not a domain name.
    """
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    # A numeric last label is an IP address, perhaps a mistyped one.
    if (
        len(name) > _LONGEST_NAME
        or labels[-1].isdecimal()
        or not all(map(_LABEL.fullmatch, labels))
    ):
        raise ValueError("must be a domain name, for example kafka.example.org")
    return f"{name}."


def host_and_port(text: str, default: int | None = None) -> tuple[str, int]:
    """Parse `HOST:PORT`; brackets of an IPv6 address are removed.

    Args:
        default: port if none is given.

    Raises:
        ValueError: it is malformed.
    """
    host, colon, port = text.rpartition(":")
    if default is not None and (not colon or text.endswith("]")):
        host, port = text, str(default)
    if not is_host(host) or "%" in host:
        raise ValueError("must be HOST:PORT, with IPv6 addresses in brackets")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("must be HOST:PORT, with a port from 1 to 65535")
    return host.strip("[]"), int(port)


def _literal(text: str) -> str:
    if "${" in text:
        raise ValueError("must not contain ${...}: it is printed and written to journals")
    return text


def _host(text: str) -> str:
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        return domain_name(text).removesuffix(".")


def _with_port(text: str) -> str:
    host_and_port(text)
    return text


def _each_with_port(text: str) -> str:
    for address in text.split(","):
        host_and_port(address.strip())
    return text


def _resolver(text: str) -> str:
    return _address(
        *host_and_port(text, default=53), "must be ADDRESS or ADDRESS:PORT of a resolver"
    )


def _server_address(text: str) -> str:
    return _address(*host_and_port(text), "must be ADDRESS:PORT: HAProxy accepts no host name here")


def _address(host: str, port: int, otherwise: str) -> str:
    try:
        address = str(ip_address(host))
    except ValueError:
        raise ValueError(otherwise) from None
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _port(number: int) -> int:
    if not 0 < number < 65536:
        raise ValueError("must be a port from 1 to 65535")
    return number


def _seconds(number: float) -> float:
    if not 0 < number < _MOST_SECONDS:
        raise ValueError("must be more than 0")
    return number


def _ttl(number: int) -> int:
    if not 0 <= number <= _MOST_SECONDS:
        raise ValueError(f"must be 0 to {_MOST_SECONDS}")
    return number


def _proxy_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.:-]+", text):
        raise ValueError("must be letters, digits, '-', '_', '.' or ':'")
    return text


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("is not the name of an environment variable")
    return name


def _several(value: object) -> object:
    return value if isinstance(value, tuple) or value is None else (value,)


Plain = Annotated[Text, AfterValidator(_literal)]
DomainName = Annotated[Plain, AfterValidator(domain_name)]
Host = Annotated[Plain, AfterValidator(_host)]
HostPort = Annotated[Plain, AfterValidator(_with_port)]
Bootstrap = Annotated[Plain, AfterValidator(_each_with_port)]
Resolver = Annotated[Plain, AfterValidator(_resolver)]
ServerAddress = Annotated[Plain, AfterValidator(_server_address)]
Port = Annotated[int, AfterValidator(_port)]
Ttl = Annotated[int, AfterValidator(_ttl)]
Seconds = Annotated[float, AfterValidator(_seconds)]
ProxyName = Annotated[Plain, AfterValidator(_proxy_name)]
Variable = Annotated[str, AfterValidator(_variable)]
Several = Annotated[tuple[T, ...], BeforeValidator(_several), Field(min_length=1)]
Arguments = Annotated[tuple[Plain, ...], BeforeValidator(_several), Field(min_length=1)]
PerCluster = Annotated[Mapping[Text, T], AfterValidator(frozen)]


class TsigConfig(Section):
    """The TSIG key for updates of the zone.

    Attributes:
        secret: as `tsig-keygen` prints it.
    """

    name: DomainName
    algorithm: TsigAlgorithm = "hmac-sha256"
    secret: Setting


class DnsEndpoint(Section):
    """A DNS record.

    Attributes:
        server: the primary server of the zone.
        clusters: record data for each cluster, as in a zone file.
        tsig: None if the server accepts updates without a key.
        resolvers: resolvers of the clients; drctl checks what they have cached.
        bootstrap: bootstrap servers of the clients, to check the endpoint as a client.
    """

    kind: Literal["dns"]
    server: Host
    port: Port = 53
    zone: DomainName
    record: DomainName
    type: RecordType = "A"
    ttl: Ttl = 5
    clusters: PerCluster[Several[Plain]] = Field(min_length=1)
    tsig: TsigConfig | None = None
    resolvers: Annotated[tuple[Resolver, ...], BeforeValidator(_several)] = ()
    timeout_s: Seconds = 5
    bootstrap: Bootstrap | None = None

    @property
    def leaving(self) -> ClientRedirect:
        """How clients are moved away from the old cluster."""
        return ClientRedirect.LOOKED_UP


class HaproxyEndpoint(Section):
    """A backend of HAProxy, through its runtime API.

    Attributes:
        socket: path of the API's Unix socket; or
        address: HOST:PORT of the API.
        servers: servers of each cluster: drctl enables those of one cluster and sets the others to
            maintenance; or
        addresses: for each cluster, the address of each server of the backend.
        cut_sessions: whether open sessions to the other clusters are closed.
        bootstrap: bootstrap servers of the clients, to check the endpoint as a client.
    """

    kind: Literal["haproxy"]
    socket: Plain | None = None
    address: HostPort | None = None
    backend: ProxyName
    servers: PerCluster[Several[ProxyName]] = Field(default_factory=empty)
    addresses: PerCluster[PerCluster[ServerAddress]] = Field(default_factory=empty)
    cut_sessions: bool = True
    timeout_s: Seconds = 5
    bootstrap: Bootstrap | None = None

    @property
    def leaving(self) -> ClientRedirect:
        """How clients are moved away from the old cluster."""
        return ClientRedirect.CUT if self.cut_sessions else ClientRedirect.LEFT_OPEN


class FileEndpoint(Section):
    """A file from which clients read their bootstrap servers.

    Attributes:
        content: content of the file.
        clusters: value of `{bootstrap}` for each cluster; default: its `bootstrap`.
    """

    kind: Literal["file"]
    path: Plain
    content: Plain = f"{BOOTSTRAP}\n"
    clusters: PerCluster[Plain] = Field(default_factory=empty)

    @property
    def leaving(self) -> ClientRedirect:
        """How clients are moved away from the old cluster."""
        return ClientRedirect.READ_AT_START


class CommandEndpoint(Section):
    """User-supplied commands.

    Attributes:
        argv: redirects clients to `{cluster}`; run without a shell.
        observe: prints the name of the current cluster of the clients.
        env: their whole environment.
        bootstrap: bootstrap servers of the clients, to check the endpoint as a client.
    """

    kind: Literal["command"]
    argv: Arguments
    observe: Arguments
    timeout_s: Seconds = 30
    env: Annotated[Mapping[Variable, Setting], AfterValidator(frozen)] = Field(
        default_factory=empty
    )
    bootstrap: Bootstrap | None = None

    @property
    def leaving(self) -> ClientRedirect:
        """How clients are moved away from the old cluster."""
        return ClientRedirect.BY_COMMAND


EndpointConfig = Annotated[
    DnsEndpoint | HaproxyEndpoint | FileEndpoint | CommandEndpoint, Field(discriminator="kind")
]
SECTIONS: Mapping[str, type[Section]] = MappingProxyType(
    {
        "dns": DnsEndpoint,
        "haproxy": HaproxyEndpoint,
        "file": FileEndpoint,
        "command": CommandEndpoint,
    }
)


def bootstrap_of(endpoint: EndpointConfig) -> str | None:
    """The bootstrap.servers of clients behind an endpoint; None if not configured."""
    return None if isinstance(endpoint, FileEndpoint) else endpoint.bootstrap
