"""What drctl.yaml may say of endpoints: a section for each kind of them."""

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
    """A mapping of the file. Frozen, and its errors never hold what was written."""

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
    """A name as DNS compares it: lower case, with the dot of the root.

    Raises:
        ValueError: it is none.
    """
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    # A last label of digits is an address, or the part of one that was mistyped.
    if (
        len(name) > _LONGEST_NAME
        or labels[-1].isdecimal()
        or not all(map(_LABEL.fullmatch, labels))
    ):
        raise ValueError("must be a domain name such as kafka.example.org")
    return f"{name}."


def host_and_port(text: str, default: int | None = None) -> tuple[str, int]:
    """`HOST:PORT` taken apart, an IPv6 address out of its brackets.

    Args:
        default: the port where none is named.

    Raises:
        ValueError: it is none.
    """
    host, colon, port = text.rpartition(":")
    if default is not None and (not colon or text.endswith("]")):
        host, port = text, str(default)
    if not is_host(host) or "%" in host:
        raise ValueError("must be HOST:PORT, an IPv6 address in brackets")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("must be HOST:PORT, with a port from 1 to 65535")
    return host.strip("[]"), int(port)


def _literal(text: str) -> str:
    if "${" in text:
        raise ValueError("may not refer to ${...}: it is shown, and goes into journals")
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
    return _address(*host_and_port(text), "must be ADDRESS:PORT: HAProxy takes no host name here")


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
    """The key that the DNS server knows drctl by.

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
        clusters: the record's data for each cluster, as in a zone file.
        tsig: None where the server lets this address update without a key.
        resolvers: those that clients ask; they are asked for what they still have.
        bootstrap: as clients have it, where drctl is to come the way that they come.
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
        """How clients leave the old cluster."""
        return ClientRedirect.LOOKED_UP


class HaproxyEndpoint(Section):
    """A backend of HAProxy, through its runtime API.

    Attributes:
        socket: path of the API's Unix socket; or
        address: where it listens.
        servers: each cluster's servers: those of one take clients, the others are in maintenance;
            or
        addresses: where each cluster has the backend's servers, by their names.
        cut_sessions: whether sessions to the other clusters are ended.
        bootstrap: as clients have it, where drctl is to come the way that they come.
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
        """How clients leave the old cluster."""
        return ClientRedirect.CUT if self.cut_sessions else ClientRedirect.LEFT_OPEN


class FileEndpoint(Section):
    """A file that clients read their bootstrap from: what it says is all there is to come by.

    Attributes:
        content: of the file.
        clusters: what stands for `{bootstrap}`; else the cluster's own `bootstrap`.
    """

    kind: Literal["file"]
    path: Plain
    content: Plain = f"{BOOTSTRAP}\n"
    clusters: PerCluster[Plain] = Field(default_factory=empty)

    @property
    def leaving(self) -> ClientRedirect:
        """How clients leave the old cluster."""
        return ClientRedirect.READ_AT_START


class CommandEndpoint(Section):
    """Commands of the site.

    Attributes:
        argv: switches to `{cluster}`; started without a shell.
        observe: prints the name of the cluster that clients are sent to.
        env: their whole environment.
        bootstrap: as clients have it, where drctl is to come the way that they come.
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
        """How clients leave the old cluster."""
        return ClientRedirect.BY_SITE


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


def entrance_of(endpoint: EndpointConfig) -> str | None:
    """What a client has as bootstrap.servers to come by an endpoint; None where nobody says it."""
    return None if isinstance(endpoint, FileEndpoint) else endpoint.bootstrap
