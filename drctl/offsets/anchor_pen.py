"""Decides what is written of each anchor after a look at the source."""

from collections.abc import Callable, Collection
from dataclasses import replace

from drctl.model.groups import Committed
from drctl.model.translation import GroupPartition
from drctl.offsets.anchor_log import Change, Held
from drctl.offsets.readings import Reading
from drctl.wire.anchors import (
    Anchor,
    AnchorHead,
    AnchorKey,
    AnchorRecord,
    decode_value,
    encode_key,
    encode_value,
)
from drctl.wire.undecodable import Undecodable

FORGET_MS = 24 * 3_600_000
"""How long an anchor outlives its position: a source that has lost its groups must not take what
is known of them with it."""

_SKEW_MS = 3_600_000
"""Nobody's clock is as wrong as that: an anchor from further ahead is replaced, not believed."""


class AnchorPen:
    """Collects the changes of one look.

    Args:
        seen_ms: when a position was seen last as its anchor says.
        buried: anchors that compaction would lose.

    Attributes:
        notes: anchors to write.
        forgotten: anchors to delete.
        astray: how many anchors are of positions that were not seen.
    """

    def __init__(
        self,
        cluster_id: str,
        now_ms: int,
        seen_ms: Callable[[AnchorKey, AnchorHead], int],
        buried: Collection[AnchorKey],
    ) -> None:
        self._cluster_id = cluster_id
        self._now_ms = now_ms
        self._seen_ms = seen_ms
        self._buried = buried
        self.notes: list[Change] = []
        self.forgotten: list[Change] = []
        self.astray = 0

    def moved(
        self,
        place: GroupPartition,
        held: Held | None,
        position: Committed,
        topic_id: str,
        reading: Reading,
    ) -> None:
        """The position is another one than its anchor says, or has none."""
        trail = reading.trail
        records = tuple(AnchorRecord(step.fingerprint, step.timestamp_ms) for step in trail.steps)
        observed_ms = self._now(held)
        anchor = Anchor(
            position.offset,
            position.leader_epoch,
            topic_id,
            observed_ms,
            records,
            milestones=reading.milestones,
            passed=trail.passed,
            uncommitted=trail.uncommitted,
        )
        self._write(self._key(place), held, anchor)

    def kept(self, place: GroupPartition, held: Held) -> None:
        """The position is what its anchor says."""
        key = self._key(place)
        if held.head.astray or key in self._buried:
            self._rewrite(key, held, self._now(held), astray=False)

    def lost(self, place: GroupPartition, held: Held | None, *, gone: bool) -> None:
        """The position was not seen.

        Args:
            gone: whether the source says that there is none.
        """
        if held is None:
            return
        key = self._key(place)
        seen_ms = self._seen_ms(key, held.head)
        if gone and held.head.astray and self._now_ms - seen_ms >= FORGET_MS:
            self.forgotten.append((encode_key(key), None))
            return
        self.astray += 1
        if not held.head.astray or key in self._buried:
            self._rewrite(key, held, seen_ms, astray=True)

    def _rewrite(self, key: AnchorKey, held: Held, observed_ms: int, *, astray: bool) -> None:
        try:
            anchor = decode_value(held.value)
        except Undecodable:
            anchor = None
        if anchor is None:
            # Nothing can be made of it; the next look notes the position anew.
            self.forgotten.append((encode_key(key), None))
        else:
            self._write(key, held, replace(anchor, observed_ms=observed_ms, astray=astray))

    def _write(self, key: AnchorKey, held: Held | None, anchor: Anchor) -> None:
        name = encode_key(key)
        if held is not None and held.head.observed_ms > anchor.observed_ms:
            # From a clock that was far ahead: only what is deleted first can be replaced.
            self.notes.append((name, None))
        self.notes.append((name, encode_value(anchor)))

    def _now(self, held: Held | None) -> int:
        """Newer than what was known when this look began, whoever's clock that was."""
        if held is None or held.head.observed_ms > self._now_ms + _SKEW_MS:
            return self._now_ms
        return max(self._now_ms, held.head.observed_ms + 1)

    def _key(self, place: GroupPartition) -> AnchorKey:
        return AnchorKey(self._cluster_id, place.group, *place.partition)
