"""What the target would take: asked beforehand, so that a run does not begin on what it refuses."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from drctl.checks.fixing import Fix, Fixes, Left
from drctl.model.repairs import Alteration, ShapeReader
from drctl.model.topology import Unavailable

Change = TypeVar("Change")

_CURE = "see what keeps the target from taking it: its policies, and the rights of drctl's user"


def tried(fixes: Fixes, target: ShapeReader) -> Fixes:
    """Without those that the target says it would not take: they are left, with its reason.

    Raises:
        Unreachable: it did not answer.
    """
    settings = [Alteration(f.change.topic, f.change.key, f.change.after) for f in fixes.settings]
    configured = target.would_configure(settings)
    extended = target.would_extend({f.change.topic: f.change.total for f in fixes.partitions})
    created = target.would_create([f.change for f in fixes.topics])
    taken, left = _parted("parity-of-settings", fixes.settings, configured, lambda c: c.topic)
    more, short = _parted("fewer-partitions-on-target", fixes.partitions, extended, _topic)
    made, missing = _parted("topics-missing-on-target", fixes.topics, created, lambda c: c.name)
    return replace(
        fixes,
        settings=taken,
        partitions=more,
        topics=made,
        left=(*fixes.left, *left, *short, *missing),
    )


def _topic(change: tuple[str, int]) -> str:
    return change[0]


def _parted(
    check: str,
    fixes: Iterable[Fix[Change]],
    answers: Mapping[str, Unavailable | None],
    topic: Callable[[Change], str],
) -> tuple[tuple[Fix[Change], ...], tuple[Left, ...]]:
    taken: list[Fix[Change]] = []
    left: list[Left] = []
    for fix in fixes:
        why = answers.get(topic(fix.change))
        if why is None:
            taken.append(fix)
        else:
            what = f"{fix.what}: {fix.before}, would be {fix.after}"
            left.append(Left(check, what, f"the target refuses it: {why.reason}", fix.why, _CURE))
    return tuple(taken), tuple(left)
