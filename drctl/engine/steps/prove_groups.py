"""Looks where the groups stand in the end: where they were put, or further on; none is missing.

Whatever has happened since they were put there: clients came, and commit by themselves.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.engine.steps.commit_offsets import CommitOffsets
from drctl.model.groups import Positions
from drctl.model.plan import Json
from drctl.model.topology import PartitionOffsets, TopicPartition, Unavailable

_SHOWN = 3

Places = Mapping[str, Mapping[TopicPartition, int]]
"""By group, where it was put."""


class ProveGroups(Looking):
    """A position behind where it was put reads again what was read, and is owed an answer."""

    name = "prove-groups"
    traits = Trait.VERIFIES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        cluster = settings["cluster"]
        return Description(
            f"see where the link's groups stand on {cluster}",
            "each position is where it was committed or further on, up to the end of its log;"
            " what is not is owed",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Where they were put: by group, rows of `[topic, partition, offset]`."""
        put = facts.get(CommitOffsets.name, {}).get("stand", {})
        return {"cluster": settings["cluster"], "stand": put}

    def verify(self, intent: Json, look: Look) -> Seen:
        """Where they are now; what cannot be read is waited for."""
        cluster, put = intent["cluster"], _places(intent["stand"])
        committed = look.groups(cluster).committed(tuple(put)) if put else {}
        places = sorted({place for positions in put.values() for place in positions})
        logs = look.site(cluster).offsets(places) if places else {}
        unread = tuple(
            f"{what}: {found.reason}"
            for what, found in (*committed.items(), *logs.items())
            if isinstance(found, Unavailable)
        )
        number = sum(map(len, put.values()))
        facts: dict[str, Any] = {"positions": number, "groups": len(put)}
        if unread:
            words = f"where {len(unread)} groups or partitions stand is not known: {unread[0]}"
            return Seen(State.WAITING, words, facts, unread)
        ends = {p: log.end for p, log in logs.items() if isinstance(log, PartitionOffsets)}
        known = {g: p for g, p in committed.items() if not isinstance(p, Unavailable)}
        found = tuple(_wrong(put, known, ends))
        wrong = tuple(words for _, words in found)
        facts |= {"wrong": len(wrong), "wrong_groups": sorted({group for group, _ in found})}
        if not wrong:
            words = f"{number} positions of {len(put)} groups are where they were put or further on"
            return Seen(State.DONE, words, facts)
        told = "; ".join(wrong[:_SHOWN])
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        words = f"{len(wrong)} of {number} positions on {cluster} are not where they should be"
        return Seen(State.DONE, words, facts, wrong, f"{words}: {told}{more}")


def _places(stand: Json) -> Places:
    return {
        group: {TopicPartition(topic, number): at for topic, number, at in rows}
        for group, rows in stand.items()
    }


def _wrong(
    put: Places, committed: Mapping[str, Positions], ends: Mapping[TopicPartition, int]
) -> Iterator[tuple[str, str]]:
    """Each position that is missing, behind, or beyond its log: its group, and words."""
    for group, positions in put.items():
        for place, at in positions.items():
            now, end = committed[group].get(place), ends[place]
            if now is None:
                yield group, f"{group} has no position in {place} any more, and was put at {at:,}"
            elif now.offset < at:
                yield group, f"{group} stands at {now.offset:,} of {place}, and was put at {at:,}"
            elif now.offset > end:
                yield group, f"{group} stands at {now.offset:,} of {place}, which ends at {end:,}"
