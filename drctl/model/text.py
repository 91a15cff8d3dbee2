"""Words of a command line that somebody will paste: the one way to quote them.

Names of groups, users, connectors and topics were chosen by whoever could: in a shell each is one
word and nothing else, in a URL one segment, and on a terminal it is a part of its line.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote as percent

_PLAIN = re.compile(r"[\w@%+=:,./-]+", re.ASCII)
CONNECT = "$CONNECT"
"""Stands for the address of a Connect worker where none is known."""


def quote(word: str) -> str:
    r"""The word for a shell; what does not print as `$'\xNN'`, as bash, zsh and ksh read it."""
    if _PLAIN.fullmatch(word):
        return word
    if word.isprintable():
        return "'" + word.replace("'", "'\"'\"'") + "'"
    return "$'" + "".join(map(_escaped, word)) + "'"


def quote_lines(text: str) -> str:
    """Text of drctl's own that goes over several lines, such as JSON, as one word for a shell."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def command(words: Iterable[str]) -> str:
    """A whole command line of these words."""
    return " ".join(map(quote, words))


def option(name: str, value: str) -> str:
    """An option with its value, also one that looks like an option itself."""
    return f"{name}={quote(value)}" if value.startswith("-") else f"{name} {quote(value)}"


def arguments(*words: str) -> str:
    """Arguments that are no options, whatever they look like."""
    told = command(words)
    return f"-- {told}" if any(word.startswith("-") for word in words) else told


def variable(name: str) -> str:
    """The variable of a shell that stands for the addresses of a cluster of this name."""
    return "$" + re.sub(r"[^A-Z0-9_]", "_", name.upper())


def segment(name: str) -> str:
    """A segment of the path of a URL; a shell takes it as it is."""
    if name in (".", ".."):
        return name.replace(".", "%2E")
    return percent(name, safe="", errors="surrogatepass")


def connector_url(worker: str, connector: str, *behind: str) -> str:
    """Where a connector is found, as a word for a shell.

    Args:
        worker: its address; empty where it is not known: whoever pastes it sets $CONNECT.
    """
    path = "/".join(("/connectors", segment(connector), *behind))
    return f"{CONNECT}{path}" if worker in ("", CONNECT) else quote(f"{worker}{path}")


def put(worker: str, connector: str, what: str) -> str:
    """The call that has a Connect worker stop, pause or resume a connector."""
    return f"curl -s -X PUT {connector_url(worker, connector, what)}"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\x{byte:02x}" for byte in _utf8(char))


def _utf8(char: str) -> bytes:
    try:
        return char.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return char.encode("utf-8", "surrogatepass")


class Lines(str):
    """Its line ends stay line ends on a terminal; those of any other text are shown as escapes."""

    __slots__ = ()


def lines(each: Iterable[str]) -> Lines:
    """A line each, whatever they hold."""
    return Lines("\n".join(r"\x0a".join(line.split("\n")) for line in each))
