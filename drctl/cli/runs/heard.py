"""Whether a record that was written to see that a cluster takes any can be read there."""

from typing import TYPE_CHECKING

from drctl.model.topology import TopicPartition, Unavailable

if TYPE_CHECKING:
    from drctl.model.ports import ClusterReader

_CANARIES = 50
"""So many records are looked at, the newest: others write there, too."""


def heard(site: "ClusterReader", topic: str, text: str) -> bool:
    """Whether it is among the newest of the topic's only partition."""
    place = TopicPartition(topic, 0)
    log = site.offsets([place]).get(place)
    if log is None or isinstance(log, Unavailable):
        return False
    start = max(log.log_start, log.end - _CANARIES)
    records = site.following({place: start}, _CANARIES).get(place, ())
    if isinstance(records, Unavailable):
        return False
    return any(record.value == text.encode() for record in records)
