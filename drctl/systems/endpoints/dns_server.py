"""One question and one answer with the primary server of a zone, over TCP, signed where it may be.

Over TCP it is known whether a request was sent at all: what was not sent was not done.
"""

import binascii
import socket
import time
from collections.abc import Mapping

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.tsig
import dns.update

from drctl.config.endpoints import DnsEndpoint, TsigConfig
from drctl.config.secret import reveal
from drctl.model.endpoints import EndpointRejected
from drctl.model.errors import ConfigError, DrctlError, Unknown, Unreachable
from drctl.systems.sockets import connected


class DnsServer:
    """The primary server of a zone.

    Args:
        key: signs what is sent; answers that it did not sign are not believed.
        timeout_s: for each question, with its answer.
    """

    def __init__(
        self, host: str, port: int, key: dns.tsig.Key | None = None, timeout_s: float = 5
    ) -> None:
        self.name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._place = (host, port)
        self._key = key
        self._timeout_s = timeout_s

    def ask(self, message: dns.message.Message) -> dns.message.Message:
        """The server's answer to a query or an update, whatever its code says.

        Raises:
            Unreachable: it could not be asked; or no answer came to a query.
            Unknown: no answer came to an update, or one that cannot be trusted.
            EndpointRejected: it does not accept the key.
        """
        until = time.monotonic() + self._timeout_s
        if self._key is not None:
            message.use_tsig(self._key)
        with self._connected() as stream:
            try:
                left = max(0.1, until - time.monotonic())
                answer = dns.query.tcp(message, self._place[0], timeout=left, sock=stream)
            except dns.tsig.PeerError as error:
                raise self._rejected(error) from None
            except (dns.exception.DNSException, OSError, EOFError) as error:
                raise self._lost(message, _reason(error)) from None
        if self._key is not None and not answer.had_tsig:
            raise self._lost(message, "the answer is not signed")
        return answer

    def _connected(self) -> socket.socket:
        try:
            stream = connected(self._place, self._timeout_s)
        except OSError as error:
            raise Unreachable(
                f"the DNS server {self.name} cannot be reached: {_reason(error)}",
                "check `server` and `port` of the endpoint; updates need TCP, which a firewall may"
                " keep from port 53",
            ) from None
        stream.setblocking(False)
        return stream

    def _lost(self, message: dns.message.Message, reason: str) -> DrctlError:
        if isinstance(message, dns.update.UpdateMessage):
            return Unknown(
                f"the DNS server {self.name} was sent an update, and no answer came that tells"
                f" whether it was done: {reason}",
                "look at the record before anything else is done; the update was conditional, so"
                " sending it again does no harm",
            )
        return Unreachable(
            f"the DNS server {self.name} did not answer: {reason}",
            "check that it runs, and that `server` and `port` of the endpoint are its own",
        )

    def _rejected(self, error: dns.tsig.PeerError) -> EndpointRejected:
        name = self._key.name.to_text() if self._key else ""
        for kind, text, cure in _REJECTIONS:
            if isinstance(error, kind):
                return EndpointRejected(f"the DNS server {self.name} {text.format(name)}", cure)
        return EndpointRejected(
            f"the DNS server {self.name} does not accept the TSIG key {name}: {error}",
            "its own log says more",
        )


_REJECTIONS = (
    (
        dns.tsig.PeerBadKey,
        "does not know the TSIG key {}",
        "check `tsig.name` and `tsig.algorithm`: the server must hold a key of the same name and"
        " algorithm",
    ),
    (
        dns.tsig.PeerBadSignature,
        "has another secret for the TSIG key {}",
        "check `tsig.secret` and `tsig.algorithm` against the server's key",
    ),
    (
        dns.tsig.PeerBadTime,
        "refuses what the TSIG key {} signed, for its clock differs from this machine's",
        "set both clocks: TSIG allows 5 minutes",
    ),
)


def opened(settings: DnsEndpoint, environ: Mapping[str, str]) -> DnsServer:
    """The server of an endpoint; connects when asked.

    Raises:
        ConfigError: the key's secret is missing, or is none.
    """
    key = _key(settings.tsig, environ) if settings.tsig else None
    return DnsServer(settings.server, settings.port, key, settings.timeout_s)


def _key(tsig: TsigConfig, environ: Mapping[str, str]) -> dns.tsig.Key:
    secret = reveal(tsig.secret.resolve(environ))
    try:
        decoded = binascii.a2b_base64(secret.strip(), strict_mode=True)
    except ValueError:
        decoded = b""
    if not decoded:
        raise ConfigError(
            f"{tsig.secret.place}: is not the secret of a TSIG key",
            "it is base64, as `tsig-keygen` prints it behind `secret`",
        )
    return dns.tsig.Key(tsig.name, decoded, tsig.algorithm)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError | dns.exception.Timeout):
        return "it took too long"
    if isinstance(error, EOFError):
        return "it closed the connection"
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
