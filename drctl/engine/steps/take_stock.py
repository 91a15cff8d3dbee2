"""Writes down how both clusters stand before anything is changed."""

from collections.abc import Mapping
from typing import Any

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Hands, Look
from drctl.model.errors import Unknown, Unreachable
from drctl.model.plan import Json
from drctl.model.repairs import TopicShape
from drctl.model.topology import TopicPartition, Unavailable

FILE = "before.json"


class TakeStock(Looking):
    """Topics and their own settings, ends of logs, positions of groups, connectors."""

    name = "take-stock"
    traits = Trait.TAKES_STOCK

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = "write down topics, end offsets, group positions and connectors of both clusters"
        return Description(title, f"{FILE} in the run's folder, and the journal")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Look at everything; what does not answer is written down as not answering."""
        return {
            "clusters": {name: _cluster(name, look) for name in settings["clusters"]},
            "connectors": {name: _connector(name, look) for name in settings["connectors"]},
        }

    def apply(self, intent: Json, hands: Hands) -> tuple[str, ...]:
        """Keep it beside the journal, too."""
        hands.keep(FILE, intent)
        return ()

    def verify(self, intent: Json, look: Look) -> Seen:
        """It stands in the journal."""
        clusters = intent["clusters"]
        facts = {
            "silent": sorted(name for name, seen in clusters.items() if "error" in seen),
            "active_groups": {name: seen.get("active", []) for name, seen in clusters.items()},
        }
        told = ", ".join(_in_words(name, seen) for name, seen in clusters.items())
        return Seen(State.DONE, told, facts)


def _cluster(name: str, look: Look) -> Mapping[str, Any]:
    try:
        site = look.site(name)
        identity = site.cluster_id()
        carried = look.link_groups(name)
        groups = look.groups(name)
        described, committed = groups.described(carried), groups.committed(carried)
        overview = site.overview().partitions
        topics = sorted({*look.topics(), *map(look.target_topic, look.topics())} & overview.keys())
        places = [TopicPartition(t, number) for t in topics for number in overview[t]]
        offsets = site.offsets(places)
        shapes = look.shapes(name).shapes(topics)
    except Unreachable as error:
        return {"error": error.message}
    return {
        "cluster_id": identity,
        "topics": {topic: _shape(found) for topic, found in shapes.items()},
        "ends": {
            str(place): found.reason if isinstance(found, Unavailable) else found.end
            for place, found in offsets.items()
        },
        "active": sorted(
            group
            for group, found in described.items()
            if not isinstance(found, Unavailable) and found.active
        ),
        "positions": {
            group: found.reason
            if isinstance(found, Unavailable)
            else {str(place): at.offset for place, at in found.items()}
            for group, found in committed.items()
        },
    }


def _shape(found: TopicShape | Unavailable | None) -> Any:
    """What a topic is made of, and what it does not have from its brokers."""
    if found is None:
        return "it is gone"
    if isinstance(found, Unavailable):
        return found.reason
    own = {key: each.value for key, each in sorted(found.settings.items()) if each.own}
    return {"partitions": found.partitions, "replicas": found.replicas, "settings": own}


def _connector(name: str, look: Look) -> Mapping[str, Any]:
    try:
        connectors = look.connectors()
        return {"state": connectors.state(name).state, "offsets": list(connectors.offsets(name))}
    except Unknown as error:
        return {"error": error.message}


def _in_words(name: str, seen: Mapping[str, Any]) -> str:
    if "error" in seen:
        return f"{name} does not answer"
    return f"{name}: {len(seen['ends'])} partitions, {len(seen['positions'])} groups"
