"""How clients leave a cluster that lives, where an endpoint that they came by is switched.

A fence alone moves nobody: who is refused stays connected. Each kind of endpoint says which of
these it is (`drctl.config.endpoints`).
"""

from collections.abc import Mapping
from enum import StrEnum


class Leaving(StrEnum):
    """By what means."""

    CUT = "cut"
    """What they come through cuts their connections."""
    LEFT_OPEN = "left-open"
    """It could, and is told not to."""
    LOOKED_UP = "looked-up"
    """They ask again where to go once they have lost every connection."""
    READ_AT_START = "read-at-start"
    """They read where to go when they start."""
    BY_SITE = "by-site"
    """The site's own means, which drctl does not know."""


_WORDS: Mapping[Leaving, str] = {
    Leaving.CUT: (
        "its sessions to {old} are cut, and clients that come through it connect anew, to {new};"
        " who is connected to a broker of {old} past it stays"
    ),
    Leaving.LEFT_OPEN: (
        "open sessions to {old} are not cut (cut_sessions: false): clients stay there until they"
        " are restarted, or somebody cuts their sessions"
    ),
    Leaving.LOOKED_UP: (
        "clients look it up again when they have lost every broker: while {old} lives they stay"
        " there until they are restarted, or its listener is closed"
    ),
    Leaving.READ_AT_START: (
        "clients read it when they start: they stay on {old} until they are restarted"
    ),
    Leaving.BY_SITE: (
        "whether the site's command cuts connections, drctl cannot see: where it does not, clients"
        " stay on {old} until they are restarted, or its listener is closed"
    ),
}


def in_words(leaving: Leaving, old: str, new: str) -> str:
    """What becomes of clients that are connected to the old cluster."""
    return _WORDS[leaving].format(old=old, new=new)
