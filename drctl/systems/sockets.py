"""Connections by TCP; names of hosts come from configurations, and from what clusters advertise."""

import errno
import socket


def connected(place: tuple[str, int], timeout_s: float) -> socket.socket:
    """A connection to a host and port.

    Raises:
        OSError: there is none; also where no host can be called so.
    """
    try:
        return socket.create_connection(place, timeout_s)
    except (UnicodeError, OverflowError):
        # The resolver encodes names first, and has an error of its own for that.
        raise OSError(errno.EINVAL, f"no host is called {place[0]!r}") from None
