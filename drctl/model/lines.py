"""Text of several lines, each of which drctl meant: what others wrote cannot begin another one."""

from collections.abc import Iterable


class Lines(str):
    """Its line ends stay line ends on a terminal; those of any other text are shown as escapes."""

    __slots__ = ()


def lines(each: Iterable[str]) -> Lines:
    """A line each, whatever they hold."""
    return Lines("\n".join(r"\x0a".join(line.split("\n")) for line in each))
