"""What records of the target say of themselves: at which offset of the source they stand there.

A header is believed only where it names the source: one that came along from a cluster before, or
was put there on the way to another one, tells offsets of that one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from drctl.model.rows import Headers, Row
from drctl.model.topology import TopicPartition
from drctl.offsets.trail import Step, step_of
from drctl.wire import migrator_headers, provenance
from drctl.wire.undecodable import Undecodable

_OWN = provenance.HEADER.encode()
_OFFSET = migrator_headers.OFFSET_HEADER.encode()
_ORIGIN = migrator_headers.ORIGIN_HEADER.encode()


class Copy(NamedTuple):
    """A record of the target that names its offset on the source.

    Attributes:
        offset: on the target.
        upstream: on the source.
        step: by which it can be known there.
    """

    offset: int
    upstream: int
    step: Step


def copy_of(row: Row, cluster_id: str, source: TopicPartition) -> Copy | None:
    """What a record of the target says; None where it does not name this partition.

    Args:
        cluster_id: Kafka's id of the source.
    """
    headers = row[4]
    if not headers:
        return None
    told = set(_told(headers, cluster_id, source))
    return Copy(row[0], told.pop(), step_of(row)) if len(told) == 1 else None


def _told(headers: Headers, cluster_id: str, source: TopicPartition) -> Iterator[int]:
    """All offsets that are told: if they are several, nobody knows which one counts."""
    offsets, origins = set(), set()
    for name, value in headers:
        try:
            if name == _OWN:
                where = provenance.decode(value)
                if (where.cluster_id, where.topic, where.partition) == (cluster_id, *source):
                    yield where.offset
            elif name == _OFFSET:
                offsets.add(migrator_headers.decode_offset(value))
            elif name == _ORIGIN:
                origins.add(migrator_headers.decode_origin(value))
        except Undecodable:
            continue
    if origins == {cluster_id}:
        yield from offsets
