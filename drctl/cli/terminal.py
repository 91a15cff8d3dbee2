"""What a terminal can show, and what must not reach it."""

import os
from typing import TextIO

from drctl.cli.options import GlobalOptions
from drctl.config.secret import masked
from drctl.model.text import Lines


def printable(text: str) -> str:
    """The text with all but printable characters, line ends and tabs as escapes.

    What names, keys and messages of a cluster hold can neither move the cursor, nor recolour,
    nor hide anything. Secrets are masked.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in masked(text))


def shown(text: str) -> str:
    """Text for a terminal: of several lines only where drctl meant them."""
    return printable(text) if isinstance(text, Lines) else one_line(text)


def one_line(text: str) -> str:
    """The same, with line ends and tabs escaped too."""
    return "".join(c if c.isprintable() else _escaped(c) for c in masked(text))


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream."""
    return not stream.closed and stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_color(stream: TextIO, options: GlobalOptions) -> bool:
    """Colour: on a terminal, unless it was asked not to."""
    return is_terminal(stream) and not options.no_color and not os.environ.get("NO_COLOR")


def bold(text: str) -> str:
    """For headings."""
    return f"\x1b[1m{text}\x1b[0m"


def cyan(text: str) -> str:
    """For what can be typed."""
    return f"\x1b[36m{text}\x1b[0m"


def red(text: str) -> str:
    """For errors."""
    return f"\x1b[1;31m{text}\x1b[0m"


def yellow(text: str) -> str:
    """For warnings."""
    return f"\x1b[33m{text}\x1b[0m"


def _escaped(char: str) -> str:
    code = ord(char)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )
