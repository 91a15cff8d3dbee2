"""Regular expressions out of connectors' configurations: whoever may write one chose it.

Python's matcher tries every way to split a name, and cannot be stopped: `(.+)+!` takes a minute on
30 characters, and twice as long on each further one. So only those are tried that are done soon on
any name of a topic; MirrorMaker 2's own, and lists of names and beginnings, are.
"""

import re

_MOST = 3
_ONE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_REPEATS = re.compile(r"[*+{]")
_CHOICES = re.compile(r"(?<!\()\?")


def compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern, to match names; None where Python cannot read it, or might never be done."""
    plain = _ONE.sub("x", pattern)
    found = (_REPEATS.findall(plain), _CHOICES.findall(plain), plain.split("(")[1:])
    if _REPEATED_GROUP.search(plain) or max(map(len, found)) > _MOST:
        return None
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None
