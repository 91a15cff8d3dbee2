"""The header that Confluent Replicator adds to the records that it copies: their origin.

Confluent documents what it holds (the id of the cluster and the name of the topic where the record
was produced, and when it was first copied), but not its layout. So drctl tries several layouts: a
small version (optional), two texts, each preceded by its length, and an INT64. A layout matches if
it accounts for every byte and all parts are valid. A header that no layout matches, or several with
different results, is undecodable.
"""

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from drctl.formats.primitives import INT64, Undecodable

HEADER = "__replicator_id"

_NAME = "Replicator's provenance"
_VERSIONS = 16
_CLUSTER_ID = re.compile(r"[\w-]{1,64}", re.ASCII)
_TOPIC = re.compile(r"[\w.-]{1,249}", re.ASCII)
_FIRST_MS, _LAST_MS = 1_500_000_000_000, 4_102_444_800_000
"""Valid times: from a time before Replicator wrote this header until 2100."""


class Layout(NamedTuple):
    """Lengths in bytes of the parts whose length is not documented.

    Attributes:
        version: length of the version; 0 if the layout has no version.
        length: length of the field that holds the length of a text.
    """

    version: int = 0
    length: int = 4


LAYOUTS = tuple(Layout(version, length) for version in (0, 1, 2, 4) for length in (2, 4))


class Origin(NamedTuple):
    """Where a record was produced.

    Attributes:
        cluster_id: Kafka's id of the cluster.
        copied_ms: when it was first copied, in milliseconds since 1970 UTC.
    """

    cluster_id: str
    topic: str
    copied_ms: int


def decode(data: bytes | None) -> Origin:
    """Decode the header's value.

    Raises:
        Undecodable: no layout matches, or several with different results.
    """
    if data is None:
        raise Undecodable(_NAME, "null", None)
    found = set(_readings(data))
    if len(found) != 1:
        reason = "no known layout" if not found else "more than one layout matches"
        raise Undecodable(_NAME, reason, data)
    return found.pop()


def encode(origin: Origin, layout: Layout = LAYOUTS[1]) -> bytes:
    """Encode the header's value in one of the layouts."""
    texts = (text.encode() for text in (origin.cluster_id, origin.topic))
    parts = (len(text).to_bytes(layout.length, "big") + text for text in texts)
    return bytes(layout.version) + b"".join(parts) + INT64.pack(origin.copied_ms)


def origin_cluster(data: bytes | None, cluster_ids: Collection[str]) -> str | None:
    """The one of these clusters that a header names, in any layout.

    None if it names none or several of them. Kafka's cluster ids are random: bytes that contain
    one name that cluster.
    """
    named = [each for each in cluster_ids if each and each.encode() in (data or b"")]
    return named[0] if len(named) == 1 else None


def names(data: bytes | None, cluster_id: str, topic: str) -> bool:
    """Whether a header names this cluster and topic, in any layout."""
    try:
        found = decode(data)
    except Undecodable:
        return all(text and text.encode() in (data or b"") for text in (cluster_id, topic))
    return (found.cluster_id, found.topic) == (cluster_id, topic)


def _readings(data: bytes) -> Iterator[Origin]:
    for layout in LAYOUTS:
        found = _read(data, layout)
        if found is not None:
            yield found


def _read(data: bytes, layout: Layout) -> Origin | None:
    if int.from_bytes(data[: layout.version], "big") >= _VERSIONS:
        return None
    at, texts = layout.version, []
    for valid in (_CLUSTER_ID, _TOPIC):
        start = at + layout.length
        at = start + int.from_bytes(data[start - layout.length : start], "big")
        text = data[start:at].decode("latin-1")
        if not valid.fullmatch(text):
            return None
        texts.append(text)
    if len(data) - at != INT64.size:
        return None
    copied_ms: int = INT64.unpack_from(data, at)[0]
    cluster_id, topic = texts
    return Origin(cluster_id, topic, copied_ms) if _FIRST_MS <= copied_ms < _LAST_MS else None
