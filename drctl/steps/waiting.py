"""Waits: for replication to catch up or drain, or for a condition that a runbook names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from drctl.engine.kind import Description, Facts, Polling, Seen, State, Trait
from drctl.engine.ports import LinkReader
from drctl.engine.recheck_source import MOVED
from drctl.model.errors import DrctlError, Unreachable
from drctl.model.health import AuthenticationFailed
from drctl.model.plan import Json
from drctl.model.topology import Unavailable
from drctl.steps.stop_replication import RUNNING


def _halted(names: Sequence[str], reader: LinkReader) -> Iterator[str]:
    """Connectors that do not run, each in words: waiting for them is in vain."""
    for name in names:
        try:
            state = reader.connectors().state(name)
        except DrctlError as error:
            yield f"{name} was not asked: {error.message}"
            continue
        if state.state != RUNNING:
            yield state.told


class CaughtUp(Polling):
    """By content: offsets of a connector that leaves records out tell less."""

    name = "caught-up"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"wait until {settings['target']} has what {settings['source']} has"
        what = "a comparison of everything" if settings["scope"] == "full" else "a comparison"
        return Description(title, f"{what} finds {settings['at_most']:,} missing at most")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Nothing has to be decided."""
        known = {"scope": settings["scope"], "at_most": settings["at_most"]}
        return {**known, "connectors": settings.get("connectors", [])}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What is missing now."""
        missing = reader.compared(intent["scope"])
        if missing.not_compared:
            words = f"not everything could be compared: {missing.not_compared[0]}"
            return Seen(State.WAITING, words, {}, missing.not_compared)
        words = f"{missing.records:,} records are still on their way"
        if missing.records > intent["at_most"]:
            halted = tuple(_halted(intent.get("connectors", ()), reader))
            return Seen(State.WAITING, "; ".join((words, *halted)), {}, missing.partitions)
        return Seen(State.DONE, words)


class Drain(Polling):
    """Compares the tail until nothing of it is missing."""

    name = "drain"
    traits = Trait.DRAINS

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = f"let replication bring everything to {settings['target']}"
        return Description(title, "a comparison of the tail finds no missing record")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """How many second copies the source is known to hold, and what is overridden.

        Equal records are counted, so that each of these is missing on the target, for good.
        """
        second = facts.get("find-missing", {}).get("duplicated", 0)
        return {"second_copies": second, "passed": settings.get("overrides", {}).get(MOVED, "")}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What is missing now."""
        second = intent.get("second_copies", 0)
        # A tail may hold some of them and not others: only where all count do they cancel out.
        missing = reader.compared("full") if second else reader.missing()
        if unproven := missing.unproven:
            words = f"{len(unproven):,} partitions are not proven yet: {unproven[0]}"
            return Seen(State.WAITING, words, {}, unproven)
        records = missing.but_for(second)
        if records:
            if why := intent.get("passed"):
                told = f"{records:,} records are missing, which is passed over: {why}"
                return Seen(State.DONE, told, {"missing": records}, missing.partitions, told)
            words = f"{records:,} records are still missing"
            return Seen(State.WAITING, words, {}, missing.partitions)
        before = missing.left_before
        aside = f" but {before:,} that were quarantined or discarded before" if before else ""
        return Seen(State.DONE, f"no record is missing on the target{aside}", {"missing": 0})


_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that can be so.

    Attributes:
        words: what is so then, with `{source}` and `{target}`.
        sight: looks; the settings name clusters and connectors.
    """

    words: str
    sight: Callable[[Json, LinkReader], Seen]

    def about(self, settings: Json) -> str:
        """What is so then, with the names of the clusters."""
        return self.words.format(source=settings["source"], target=settings["target"])


def _answers(site: str, settings: Json, reader: LinkReader) -> Seen:
    name = settings[site]
    try:
        identity = reader.alive(name)
    except Unreachable as error:
        return Seen(State.WAITING, error.message)
    return Seen(State.DONE, f"{name} answers", {"cluster_id": identity})


def _silent(settings: Json, reader: LinkReader) -> Seen:
    name = settings["source"]
    try:
        reader.alive(name)
    except AuthenticationFailed as error:
        return Seen(State.WAITING, f"{name} is there: {error.message}")
    except Unreachable as error:
        return Seen(State.DONE, error.message)
    return Seen(State.WAITING, f"{name} still answers")


def _led(site: str, settings: Json, reader: LinkReader) -> Seen:
    names = reader.topics()
    if site == "target":
        names = tuple(map(reader.target_topic, names))
    dark = []
    for name, found in reader.site(settings[site]).topics(names).items():
        if isinstance(found, Unavailable):
            dark.append(f"{name}: {found.reason}")
        elif found is not None:
            dark += [f"{name}-{n}" for n, leader in found.partitions.items() if leader is None]
    if dark:
        words = f"{len(dark)} partitions have no leader: {', '.join(sorted(dark)[:_SHOWN])}"
        return Seen(State.WAITING, words, {}, tuple(sorted(dark)))
    return Seen(State.DONE, f"every partition of {len(names)} topics has a leader")


def _empty(site: str, settings: Json, reader: LinkReader) -> Seen:
    cluster = settings[site]
    names = reader.link_groups(cluster)
    described = reader.groups(cluster).described(names).items()
    active = sorted(n for n, g in described if isinstance(g, Unavailable) or g.active)
    if active:
        told = ", ".join(active[:_SHOWN])
        words = f"{len(active)} of {len(names)} groups on {cluster} are read in: {told}"
        return Seen(State.WAITING, words, {}, tuple(active))
    return Seen(State.DONE, f"nobody reads in any of {len(names)} groups on {cluster}")


def _caught_up(settings: Json, reader: LinkReader) -> Seen:
    missing = reader.missing()
    if missing.not_compared:
        words = f"not everything could be compared: {missing.not_compared[0]}"
        return Seen(State.WAITING, words, {}, missing.not_compared)
    if missing.records:
        words = f"{missing.records:,} records are still missing"
        return Seen(State.WAITING, words, {}, missing.partitions)
    return Seen(State.DONE, "no record is missing on the target")


def _connectors(wanted: str, settings: Json, reader: LinkReader) -> Seen:
    names = settings["connectors"]
    if not names:
        return Seen(State.FAILED, "drctl.yaml names no connector of this link")
    states = {name: reader.connectors().state(name).state for name in names}
    others = tuple(f"{name} is {state}" for name, state in states.items() if state != wanted)
    if others:
        return Seen(State.WAITING, "; ".join(others), {}, others)
    return Seen(State.DONE, f"all of {len(names)} connectors are {wanted}")


CONDITIONS: Mapping[str, Condition] = {
    "source reachable": Condition("{source} answers", partial(_answers, "source")),
    "source silent": Condition("{source} does not answer", _silent),
    "source led": Condition("every partition on {source} has a leader", partial(_led, "source")),
    "target reachable": Condition("{target} answers", partial(_answers, "target")),
    "target led": Condition("every partition on {target} has a leader", partial(_led, "target")),
    "groups empty": Condition(
        "nobody reads in the link's groups on {source}", partial(_empty, "source")
    ),
    "target groups empty": Condition(
        "nobody reads in the link's groups on {target}", partial(_empty, "target")
    ),
    "replication caught up": Condition("{target} lacks no record of the tail", _caught_up),
    "connectors running": Condition(
        "the connectors and their tasks run", partial(_connectors, "RUNNING")
    ),
    "connectors stopped": Condition("the connectors are stopped", partial(_connectors, "STOPPED")),
}
"""By the name that stands in runbooks."""


class Wait(Polling):
    """Looks again and again, for as long as the step's patience lasts."""

    name = "wait"
    traits = Trait.NONE

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        condition = CONDITIONS[settings["for"]]
        return Description(f"wait until {condition.about(settings)}", "it was seen to be so")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Nothing has to be decided."""
        return dict(settings)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether it is so now."""
        return CONDITIONS[intent["for"]].sight(intent, reader)
