"""What can be waited for, by name; each is a look."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drctl.engine.kind import Seen, State
from drctl.engine.ports import Look
from drctl.model.errors import Unreachable
from drctl.model.plan import Json
from drctl.model.reachability import NotLetIn
from drctl.model.topology import Unavailable

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that can be so.

    Attributes:
        words: what is so then, with `{source}` and `{target}`.
        sight: looks; the settings name clusters and connectors.
    """

    words: str
    sight: Callable[[Json, Look], Seen]

    def about(self, settings: Json) -> str:
        """What is so then, with the names of the clusters."""
        return self.words.format(source=settings["source"], target=settings["target"])


def _answers(site: str) -> Callable[[Json, Look], Seen]:
    def sight(settings: Json, look: Look) -> Seen:
        name = settings[site]
        try:
            identity = look.alive(name)
        except Unreachable as error:
            return Seen(State.WAITING, error.message)
        return Seen(State.DONE, f"{name} answers", {"cluster_id": identity})

    return sight


def _silent(settings: Json, look: Look) -> Seen:
    name = settings["source"]
    try:
        look.alive(name)
    except NotLetIn as error:
        return Seen(State.WAITING, f"{name} is there: {error.message}")
    except Unreachable as error:
        return Seen(State.DONE, error.message)
    return Seen(State.WAITING, f"{name} still answers")


def _led(site: str) -> Callable[[Json, Look], Seen]:
    def sight(settings: Json, look: Look) -> Seen:
        names = look.topics()
        if site == "target":
            names = tuple(map(look.target_topic, names))
        dark = []
        for name, found in look.site(settings[site]).topics(names).items():
            if isinstance(found, Unavailable):
                dark.append(f"{name}: {found.reason}")
            elif found is not None:
                dark += [f"{name}-{n}" for n, leader in found.partitions.items() if leader is None]
        if dark:
            words = f"{len(dark)} partitions have no leader: {', '.join(sorted(dark)[:_SHOWN])}"
            return Seen(State.WAITING, words, {}, tuple(sorted(dark)))
        return Seen(State.DONE, f"every partition of {len(names)} topics has a leader")

    return sight


def _empty(site: str) -> Callable[[Json, Look], Seen]:
    def sight(settings: Json, look: Look) -> Seen:
        cluster = settings[site]
        names = look.link_groups(cluster)
        described = look.groups(cluster).described(names).items()
        active = sorted(n for n, g in described if isinstance(g, Unavailable) or g.active)
        if active:
            told = ", ".join(active[:_SHOWN])
            words = f"{len(active)} of {len(names)} groups on {cluster} are read in: {told}"
            return Seen(State.WAITING, words, {}, tuple(active))
        return Seen(State.DONE, f"nobody reads in any of {len(names)} groups on {cluster}")

    return sight


def _caught_up(settings: Json, look: Look) -> Seen:
    missing = look.missing()
    if missing.not_compared:
        words = f"not everything could be compared: {missing.not_compared[0]}"
        return Seen(State.WAITING, words, {}, missing.not_compared)
    if missing.records:
        words = f"{missing.records:,} records are still missing"
        return Seen(State.WAITING, words, {}, missing.partitions)
    return Seen(State.DONE, "no record is missing on the target")


def _connectors(wanted: str) -> Callable[[Json, Look], Seen]:
    def sight(settings: Json, look: Look) -> Seen:
        names = settings["connectors"]
        if not names:
            return Seen(State.FAILED, "drctl.yaml names no connector of this link")
        states = {name: look.connectors().state(name).state for name in names}
        others = tuple(f"{name} is {state}" for name, state in states.items() if state != wanted)
        if others:
            return Seen(State.WAITING, "; ".join(others), {}, others)
        return Seen(State.DONE, f"all of {len(names)} connectors are {wanted}")

    return sight


CONDITIONS: Mapping[str, Condition] = {
    "source reachable": Condition("{source} answers", _answers("source")),
    "source silent": Condition("{source} does not answer", _silent),
    "source led": Condition("every partition on {source} has a leader", _led("source")),
    "target reachable": Condition("{target} answers", _answers("target")),
    "target led": Condition("every partition on {target} has a leader", _led("target")),
    "groups empty": Condition("nobody reads in the link's groups on {source}", _empty("source")),
    "target groups empty": Condition(
        "nobody reads in the link's groups on {target}", _empty("target")
    ),
    "replication caught up": Condition("{target} lacks no record of the tail", _caught_up),
    "connectors running": Condition("the connectors and their tasks run", _connectors("RUNNING")),
    "connectors stopped": Condition("the connectors are stopped", _connectors("STOPPED")),
}
"""By the name that stands in runbooks."""
