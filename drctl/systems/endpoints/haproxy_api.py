"""HAProxy's runtime API: lines of commands to a socket, one text back for each.

All commands of a call go in one line, so that HAProxy has all of them or none.
"""

import re
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from drctl.config.endpoints import HaproxyEndpoint, host_and_port
from drctl.model.endpoints import EndpointRejected
from drctl.model.errors import DrctlError, Unknown, Unreachable
from drctl.systems.sockets import connected

# Each answer ends with an empty line, and may be nothing but that.
_ANSWER = re.compile(r"((?:[^\n]+\n)*)\n")
_LONGEST_LINE = 15_000
_MOST_BYTES = 16 << 20


class RuntimeApi:
    """The runtime API of one HAProxy process; connects for each call.

    Args:
        place: path of a Unix socket, or host and port.
        timeout_s: for each call.
    """

    def __init__(self, place: str | tuple[str, int], timeout_s: float = 5) -> None:
        self._place = place
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        """Where it is."""
        return self._place if isinstance(self._place, str) else "{}:{}".format(*self._place)

    def query(self, *commands: str) -> tuple[str, ...]:
        """The answers to commands that change nothing.

        Raises:
            Unreachable: it cannot be asked, or does not answer.
        """
        return self._call(
            commands,
            Unreachable(
                f"HAProxy ({self.name}) did not answer",
                "check that the endpoint names HAProxy's `stats socket`, and not a port of Kafka",
            ),
        )

    def order(self, *commands: str) -> tuple[str, ...]:
        """The answers to commands that change something.

        Raises:
            Unreachable: it cannot be asked; nothing was changed.
            EndpointRejected: there are too many for one line; nothing was changed.
            Unknown: no whole answer came after it had been asked.
        """
        return self._call(
            commands,
            Unknown(
                f"HAProxy ({self.name}) was told to switch, and did not say whether it did",
                "look at its servers before anything else is done; telling it again does no harm",
            ),
        )

    def _call(self, commands: Sequence[str], lost: DrctlError) -> tuple[str, ...]:
        line = "; ".join(commands) + "\n"
        if len(line) > _LONGEST_LINE:
            raise EndpointRejected(
                f"HAProxy ({self.name}) takes no line of {len(line)} characters",
                "the endpoint has too many servers: make two backends of it",
            )
        with self._connected() as stream:
            try:
                text = self._exchanged(stream, line.encode())
            except OSError:
                raise lost from None
        answers = _ANSWER.findall(text)
        if len(answers) != len(commands):
            raise lost
        return tuple(answer.strip() for answer in answers)

    def _exchanged(self, stream: socket.socket, line: bytes) -> str:
        until = time.monotonic() + self._timeout_s
        stream.settimeout(self._timeout_s)
        stream.sendall(line)
        parts, length = [], 0
        while part := stream.recv(1 << 16):
            parts.append(part)
            length += len(part)
            left = until - time.monotonic()
            if left <= 0 or length > _MOST_BYTES:
                raise TimeoutError
            stream.settimeout(left)
        return b"".join(parts).decode(errors="replace")

    def _connected(self) -> socket.socket:
        try:
            if isinstance(self._place, tuple):
                return connected(self._place, self._timeout_s)
            stream = socket.socket(socket.AF_UNIX)
            try:
                stream.settimeout(self._timeout_s)
                stream.connect(self._place)
            except OSError:
                stream.close()
                raise
        except OSError as error:
            raise Unreachable(
                f"HAProxy ({self.name}) cannot be reached: {error.strerror or error}", _cure(error)
            ) from None
        return stream


def opened(settings: HaproxyEndpoint, path: Callable[[str], Path]) -> RuntimeApi:
    """The API of an endpoint; connects when asked.

    Args:
        path: where a file of the configuration is.
    """
    if settings.address:
        return RuntimeApi(host_and_port(settings.address), settings.timeout_s)
    return RuntimeApi(str(path(settings.socket or "")), settings.timeout_s)


def _cure(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "the socket belongs to another user: set `user` and `mode` of `stats socket`"
    return "check that HAProxy runs, and that the endpoint names the socket of its runtime API"
