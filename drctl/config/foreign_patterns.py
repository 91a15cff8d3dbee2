"""Untrusted regular expressions from the configurations of connectors.

Python's matcher backtracks and cannot be interrupted: `(.+)+!` takes a minute on 30 characters and
twice as long with each further character. Therefore only patterns that are fast on any topic name
are matched: those of MirrorMaker 2, and lists of names and prefixes.
"""

import re

_MOST = 3
_ONE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEATS = re.compile(r"[*+{]")
_CHOICES = re.compile(r"(?<!\()\?")


def compiled(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern; None if Python cannot read it, or it may be too slow."""
    plain = _ONE.sub("x", pattern)
    found = (_REPEATS.findall(plain), _CHOICES.findall(plain), plain.split("(")[1:])
    if _REPEATED_GROUP.search(plain) or max(map(len, found)) > _MOST:
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None
