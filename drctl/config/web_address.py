"""Where an HTTP server listens, read once: what may be shown of it, and what may not."""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from drctl.config.hosts import is_host

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
