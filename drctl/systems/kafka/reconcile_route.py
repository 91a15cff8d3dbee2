"""What `rd_kafka_produceva` is told of a record, laid out once for each partition of the target."""

import ctypes as c
from struct import Struct

# rd_kafka_vtype_t, and rd_kafka_vu_t: a tag, and a union that is padded to 64 bytes.
_HANDLE, _PARTITION, _VALUE, _KEY, _FLAGS, _TIME, _HEADER, _HEADERS = 2, 3, 4, 5, 7, 8, 9, 10
_ORDER = (_FLAGS, _HANDLE, _PARTITION, _VALUE, _KEY, _TIME, _HEADER)
_COPY = 2  # RD_KAFKA_MSG_F_COPY
_WORD, _TOLD_WORDS = 8, 9
_TOLD_BYTES = _WORD * _TOLD_WORDS
_TAG, _INT, _ADDRESS = Struct("@i"), Struct("@i"), Struct("@P")

TOLD = len(_ORDER)
"""How many things it is told."""

VALUE, VALUE_SIZE = (_TOLD_WORDS * _ORDER.index(_VALUE) + n for n in (1, 2))
KEY, KEY_SIZE = (_TOLD_WORDS * _ORDER.index(_KEY) + n for n in (1, 2))
TIME = _TOLD_WORDS * _ORDER.index(_TIME) + 1
LAST, _CONTENT, STAMP_SIZE = (_TOLD_WORDS * _ORDER.index(_HEADER) + n for n in (1, 2, 3))
"""Words that change from record to record; the last thing told is one header, or all of them."""

_LONGEST_STAMP = 2048
"""Names of topics have 249 characters at most, and the rest of a stamp some 120."""


class Route:
    """The way to one partition of the target.

    Attributes:
        words: of a record whose only header is the new one; `address` is where they lie.
        more_words: of a record that has headers already; `more_address` is where they lie.
        stamp: room for the value of the new header.
    """

    def __init__(self, topic: int, partition: int, header: bytes) -> None:
        self.topic, self.partition = topic, partition
        self._room = c.create_string_buffer(2 * _TOLD_BYTES * TOLD + _LONGEST_STAMP)
        self._name = c.create_string_buffer(header)
        self.address = c.addressof(self._room)
        self.more_address = self.address + _TOLD_BYTES * TOLD
        view = memoryview(self._room).cast("B")
        first, second = (view[n * _TOLD_BYTES * TOLD :][: _TOLD_BYTES * TOLD] for n in (0, 1))
        self.stamp = view[2 * _TOLD_BYTES * TOLD :]
        self._lay_out(first, _ORDER)
        self._lay_out(second, (*_ORDER[:-1], _HEADERS))
        self.words, self.more_words = first.cast("q"), second.cast("q")
        self.words[LAST] = c.addressof(self._name)
        self.words[_CONTENT] = self.address + 2 * _TOLD_BYTES * TOLD

    def _lay_out(self, told: memoryview, order: tuple[int, ...]) -> None:
        for number, tag in enumerate(order):
            _TAG.pack_into(told, number * _TOLD_BYTES, tag)
        for tag, layout, value in (
            (_FLAGS, _INT, _COPY),
            (_HANDLE, _ADDRESS, self.topic),
            (_PARTITION, _INT, self.partition),
        ):
            layout.pack_into(told, order.index(tag) * _TOLD_BYTES + _WORD, value)
