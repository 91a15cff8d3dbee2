"""Makes text safe for a terminal, and colors it."""

import os
import re
from textwrap import fill
from typing import TextIO

from drctl.cli.options import GlobalOptions
from drctl.config.secret import masked
from drctl.model.text import Lines

_COMMAND = re.compile(
    r"`[^`]+`|\bdrctl(?: (?!-)[^\s;,:()]+){1,3}"
    r"(?: --[\w-]+(?:[ =](?:'[^']*'|\"[^\"]*\"|(?!-)\S+))?)*"
)
"""A command in a sentence, with its options and their values."""


def printable(text: str) -> str:
    """Escape all non-printable characters except line ends and tabs, and mask secrets.

    Names, keys and messages from a cluster can neither move the cursor nor change colors.
    """
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in masked(text))


def shown(text: str) -> str:
    """Text for a terminal; only `Lines` may have several lines."""
    return printable(text) if isinstance(text, Lines) else one_line(text)


def one_line(text: str) -> str:
    """Like `printable`, with line ends and tabs escaped, too."""
    return "".join(c if c.isprintable() else _escaped(c) for c in masked(text))


def fitted(text: str, stream: TextIO) -> str:
    """Break a sentence at spaces to fit into a terminal; a command in it stays on one line.

    Text that has several lines already, and text for files, is returned unchanged.
    """
    try:
        width = os.get_terminal_size(stream.fileno()).columns if is_terminal(stream) else 0
    except OSError:
        width = 0
    if not width or len(text) <= width or "\n" in text:
        return text
    held = _COMMAND.sub(lambda command: command[0].replace(" ", "\0"), text)
    return fill(held, width, break_long_words=False, break_on_hyphens=False).replace("\0", " ")


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is an interactive terminal."""
    return not stream.closed and stream.isatty() and os.environ.get("TERM") != "dumb"


def wants_color(stream: TextIO, options: GlobalOptions) -> bool:
    """Whether to print colors: on a terminal, unless --no-color or NO_COLOR is set."""
    return is_terminal(stream) and not options.no_color and not os.environ.get("NO_COLOR")


def bold(text: str) -> str:
    """Style of headings."""
    return f"\x1b[1m{text}\x1b[0m"


def cyan(text: str) -> str:
    """Style of words to type."""
    return f"\x1b[36m{text}\x1b[0m"


def red(text: str) -> str:
    """Style of errors."""
    return f"\x1b[1;31m{text}\x1b[0m"


def yellow(text: str) -> str:
    """Style of warnings."""
    return f"\x1b[33m{text}\x1b[0m"


def _escaped(char: str) -> str:
    code = ord(char)
    return (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )
