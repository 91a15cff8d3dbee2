"""By what a record of the source is known again on the target.

By its time, too, where that survives: many records have the same key and value. Where the target's
topic keeps its own (LogAppendTime), or the link's `identity` leaves it out and names no header
instead, one that is alike may be a copy, or another; one that is not is none.
"""

from collections.abc import Collection
from dataclasses import dataclass

from drctl.engine.first_records import FIELDS, KEY, TIMESTAMP, VALUE
from drctl.model.topology import Record, Unavailable

Told = tuple[object, ...]
_HEADER = "header:"


@dataclass(frozen=True, slots=True)
class Alike:
    """What copies have in common with their originals.

    Attributes:
        identity: the link's: some of `FIELDS`, and header:NAME; `headers` as such is not looked at,
            for they may be added to on the way.
        own_time: topics of the target whose records may have another time.
    """

    identity: Collection[str] = FIELDS
    own_time: Collection[str] = ()

    def told(self, record: Record, topic: str) -> Told:
        """What a copy has of it in this topic of the target; nothing where nothing survives."""
        known = {KEY: record.key, VALUE: record.value, TIMESTAMP: record.timestamp_ms}
        named = self._headers()
        headers = (each for each in record.headers if each[0] in named)
        return (*(known[name] for name in self._fields(topic)), *headers)

    def sure(self, topic: str) -> bool:
        """Whether one that is alike is taken for the copy."""
        fields = self._fields(topic)
        return bool(self._headers()) or (TIMESTAMP in fields and len(fields) > 1)

    def unsure(self, topic: str) -> Unavailable:
        """What there is to say of one that is alike, where that says little."""
        return Unavailable(
            f"records of {topic} are told without their time (LogAppendTime, or `identity` of the"
            " link): one that is alike is there, and may be a copy or another"
        )

    def _fields(self, topic: str) -> tuple[str, ...]:
        timed = topic not in self.own_time
        return tuple(n for n in FIELDS if n in self.identity and (timed or n != TIMESTAMP))

    def _headers(self) -> frozenset[str]:
        named = (each for each in self.identity if each.startswith(_HEADER))
        return frozenset(each.removeprefix(_HEADER) for each in named)
