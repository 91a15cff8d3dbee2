"""The anchors that a translation may use, each with the time when it was last seen to be true."""

from collections.abc import Mapping
from dataclasses import replace

from drctl.model.ports import OffsetReader
from drctl.model.topology import TopicPartition, TopicState
from drctl.model.translation import GroupPartition
from drctl.offsets.anchor_log import AnchorLog, Confirmations
from drctl.wire import anchors
from drctl.wire.anchor_passes import Scope
from drctl.wire.anchors import Anchor
from drctl.wire.undecodable import Undecodable


def anchors_of(
    log: AnchorLog, cluster_id: str, source: OffsetReader | None, scope: Scope | None
) -> tuple[Mapping[GroupPartition, Anchor], int]:
    """The anchors of a cluster's positions, and how many records are damaged.

    Args:
        source: that cluster, where it answers: anchors of topics that were made anew since, or are
            gone, do not count then.
        scope: of the link; None where it is not known.

    Raises:
        Unreachable: the source did not answer.
    """
    seen_ms = Confirmations(log.passes(cluster_id), scope).seen_ms
    found: dict[GroupPartition, Anchor] = {}
    damaged = log.damaged
    for key, held in log.of_cluster(cluster_id):
        try:
            anchor = anchors.decode_value(held.value)
        except Undecodable:
            damaged += 1
            continue
        if anchor is not None:
            place = GroupPartition(key.group, TopicPartition(key.topic, key.partition))
            found[place] = replace(anchor, observed_ms=seen_ms(key, held.head))
    return (found if source is None else _still(found, source)), damaged


def survived_cluster(log: AnchorLog, source: str, target_id: str) -> str | None:
    """Whose anchors are those of a source that cannot be asked for its id.

    Trackers note the name that they know the source by. One cluster alone needs no name. An empty
    text where there are no anchors at all, None where they are all of others.

    Args:
        source: its name in drctl.yaml.
        target_id: of the cluster that keeps the anchors, whose own ones are not meant.
    """
    ids = log.cluster_ids() - {target_id}
    if not ids:
        return ""
    looked = {
        found.at_ms: cluster_id
        for cluster_id in ids
        for found in log.passes(cluster_id)
        if found.scope.source == source
    }
    if looked:
        return looked[max(looked)]
    return next(iter(ids)) if len(ids) == 1 else None


def _still(
    found: Mapping[GroupPartition, Anchor], source: OffsetReader
) -> Mapping[GroupPartition, Anchor]:
    names = sorted({place.partition.topic for place in found})
    topics = source.topics(names) if names else {}
    return {
        place: anchor
        for place, anchor in found.items()
        if isinstance(state := topics[place.partition.topic], TopicState)
        and anchor.topic_id in ("", state.topic_id)
    }
