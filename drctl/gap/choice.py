"""Which topics of a link a command looks at."""

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from drctl.config.link import Link
from drctl.model.errors import UsageError

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")


def choose_topics(link: Link, seen: Collection[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """The wanted topics, or all that the link carries; some of them may not exist.

    Args:
        seen: the source's topics, as far as the user may see them.

    Raises:
        UsageError: the link carries none of the source's topics, or not a wanted one.
    """
    carried = link.topics_of({*seen, *_unseen(link, seen)})
    for name in wanted:
        if name not in carried:
            close = get_close_matches(name, carried, 1)
            raise UsageError(
                f"link {link.name} carries no topic {name!r} of {link.source}",
                f"did you mean {close[0]!r}?" if close else "see `topics` of the link",
            )
    if not carried:
        raise UsageError(
            f"link {link.name} matches no topic of {link.source}",
            "check `topics` and `exclude` of the link, and what the user may describe",
        )
    return tuple(dict.fromkeys(wanted)) or carried


def _unseen(link: Link, seen: Collection[str]) -> set[str]:
    """Topics that the link names, not by a pattern, and the user may not even see."""
    return {
        pattern
        for pattern in link.settings.topics
        if _TOPIC_NAME.fullmatch(pattern) and not any(re.fullmatch(pattern, name) for name in seen)
    }
