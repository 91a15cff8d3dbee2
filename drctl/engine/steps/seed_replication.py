"""Tells a stopped connector where to begin: at the first record that its target has not.

MirrorMaker 2 keeps the last offset that it copied, and goes on behind it; without one it begins at
the beginning, and copies everything twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.engine.returning import Offsets, offsets_of, rows
from drctl.engine.steps.stop_replication import STOPPED
from drctl.model.errors import Refused, Unreachable
from drctl.model.plan import Json
from drctl.model.ports import ClusterReader
from drctl.model.topology import TopicPartition, Unavailable
from drctl.wire.connect_offsets import ConnectKey, copied_offset, copied_partition

_ALIAS = "source.cluster.alias"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SeedReplication:
    """Sets source offsets through Connect, and reads them back.

    Attributes:
        from_search: whether it begins where a search says; else where its source ends now.
    """

    name: str
    from_search: bool

    @property
    def traits(self) -> Trait:
        """What the rules of order need to know."""
        return Trait.CHANGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        source, target = settings["source"], settings["target"]
        where = f"the first record that {target} has not" if self.from_search else "its end"
        return Description(
            f"let connector {settings['connector']} begin at {where}, in each partition of"
            f" {source}",
            "Connect keeps these offsets, and the connector is STOPPED",
            "give it the offsets back that it had",
        )

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Which offsets, and what it had.

        Raises:
            Refused: the connector is not stopped.
            UsageError: there is no such connector.
            Unreachable: a cluster, or every worker, did not answer.
        """
        name, connectors = settings["connector"], look.connectors()
        search = facts["find-missing"] if self.from_search else {}
        if search.get("begun"):
            # What has begun at the right place goes on from where it came to.
            begun = {"connector": name, "alias": "", "wanted": [], "before": []}
            return {**begun, "from": search["boundaries"], "ends": search["ends"]}
        state = connectors.state(name).state
        if state != STOPPED:
            raise Refused(
                f"connector {name} is {state}: where it begins can be set only while it is stopped",
                f"stop it: curl -X PUT $CONNECT/connectors/{name}/stop",
            )
        start, ends = _from_search(search) if search else _from_logs(settings, look)
        kept = _kept(name, connectors.offsets(name))
        return {
            "connector": name,
            "alias": connectors.config(name).get(_ALIAS, "source"),
            "wanted": _entries({place: _last(start[place]) for place in start}),
            "before": _entries({place: kept.get(place) for place in start}),
            "from": rows(start),
            "ends": rows(ends),
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Set them."""
        return _alter(intent, "wanted", hands)

    def verify(self, intent: Json, look: Look) -> Seen:
        """Whether they read back; one that has gone on since was there."""
        name, facts = intent["connector"], {"from": intent["from"], "ends": intent["ends"]}
        if not intent["wanted"]:
            words = f"nothing has to be set: {name} goes on from where it came to"
            return Seen(State.DONE, words, facts)
        kept = _kept(name, look.connectors().offsets(name))
        wanted = {TopicPartition(topic, number): at for topic, number, at in intent["wanted"]}
        others = tuple(
            f"{place}: {name} keeps {kept.get(place)}"
            for place, at in wanted.items()
            if not _reached(kept.get(place), at)
        )
        if others:
            words = f"{len(others)} offsets are not there: {'; '.join(others[:_SHOWN])}"
            return Seen(State.WAITING, words, {}, others)
        return Seen(State.DONE, f"{name} begins there in {len(wanted)} partitions", facts)

    def undo(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Give it back what it had."""
        return _alter(intent, "before", hands)

    def undone(self, intent: Json, look: Look) -> Seen:
        """Whether it has it."""
        name = intent["connector"]
        kept = _kept(name, look.connectors().offsets(name))
        others = tuple(
            f"{TopicPartition(topic, number)}"
            for topic, number, at in intent["before"]
            if kept.get(TopicPartition(topic, number)) != at
        )
        if others:
            return Seen(State.WAITING, f"{len(others)} offsets are not as before", {}, others)
        return Seen(State.DONE, f"{name} has the offsets that it had")


def _last(start: int) -> int | None:
    """What MirrorMaker 2 keeps to begin there; nothing, to begin at the beginning."""
    return start - 1 if start > 0 else None


def _reached(kept: int | None, wanted: int | None) -> bool:
    return wanted is None or (kept is not None and kept >= wanted)


def _entries(offsets: Mapping[TopicPartition, int | None]) -> list[list[Any]]:
    return [[place.topic, place.partition, at] for place, at in sorted(offsets.items())]


def _kept(name: str, entries: Iterable[Mapping[str, Any]]) -> Offsets:
    """The last offset that the connector says it copied, by partition."""
    found = {}
    for each in entries:
        place = copied_partition(ConnectKey(name, dict(each.get("partition") or {})))
        at = copied_offset(dict(each.get("offset") or {}))
        if place is not None and at is not None:
            found[TopicPartition(place.topic, place.partition)] = at
    return found


def _alter(intent: Json, which: str, hands: Hands) -> tuple[str, ...]:
    entries = [
        {
            "partition": {"cluster": intent["alias"], "topic": topic, "partition": number},
            "offset": None if at is None else {"offset": at},
        }
        for topic, number, at in intent[which]
    ]
    if entries:
        hands.connectors().alter_offsets(intent["connector"], entries)
    return ()


def _from_search(search: Json) -> tuple[Offsets, Offsets]:
    """Where it begins, and where its target ends before it does."""
    return offsets_of(search["boundaries"]), offsets_of(search["ends"])


def _from_logs(settings: Json, look: Look) -> tuple[Offsets, Offsets]:
    start = _ends(look.site(settings["source"]), look.topics())
    return start, _ends(look.site(settings["target"]), _copies(look))


def _copies(look: Look) -> tuple[str, ...]:
    return tuple(map(look.target_topic, look.topics()))


def _ends(site: ClusterReader, topics: Iterable[str]) -> Offsets:
    """Where the topics' partitions end; without those of topics that are not there.

    Raises:
        Unreachable: one of them does not tell.
    """
    there = site.overview().partitions
    places = [TopicPartition(name, n) for name in topics for n in there.get(name, ())]
    found = {}
    for place, log in site.offsets(places).items() if places else ():
        if isinstance(log, Unavailable):
            raise Unreachable(f"where {place} of {site.name} ends is not known: {log.reason}")
        found[place] = log.end
    return found
