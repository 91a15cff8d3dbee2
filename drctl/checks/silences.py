"""What could not be looked at, and why: one cause keeps many checks from it."""

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from drctl.checks.observed import NOT_LOOKED_AT, Observed
from drctl.model.finding import Because
from drctl.model.reachability import Locked
from drctl.model.topology import Unavailable


def silences(observed: Observed) -> Sequence[Because]:
    """Each cause once; first those that are about a whole cluster."""
    link = observed.link
    found: dict[str, Because] = {}
    for name, answer in ((link.source, observed.source), (link.target, observed.target)):
        if isinstance(answer, Unavailable) and answer != NOT_LOOKED_AT:
            locked = isinstance(answer, Locked)
            what = "does not let drctl in" if locked else "does not answer"
            found.setdefault(answer.reason, Because(f"cluster {name} {what}", answer.reason))
    if isinstance(observed.connectors, Unavailable) and observed.connectors != NOT_LOOKED_AT:
        why = observed.connectors.reason
        found.setdefault(why, Because("Connect cannot be looked at", why))
    for each in (*_unavailable(observed), *_unavailable(observed.survey)):
        found.setdefault(each.reason, Because(each.reason, each.reason))
    return [each for why, each in found.items() if why]


def _unavailable(seen: Any) -> Iterator[Unavailable]:
    for each in fields(seen):
        value = getattr(seen, each.name)
        if isinstance(value, Unavailable) and value != NOT_LOOKED_AT:
            yield value
