"""The way home to a cluster that has lost its records: it is emptied, and gets all of them anew.

It is a way home like any other, but for what comes home: everything, from the beginning.
"""

from collections.abc import Iterable, Iterator

from drctl.engine.sequences import parts
from drctl.engine.sequences.failback import (
    IN_FLIGHT,
    WayBack,
    behind,
    by_hand,
    closed,
    moved,
    starts,
)
from drctl.engine.steps.empty_source import EmptySource
from drctl.engine.steps.manual_start import START
from drctl.engine.steps.seed_from_start import SeedFromStart
from drctl.engine.steps.way_back_order import REBUILDING
from drctl.model.plan import Plan, Step

NAME = "rebuild"

_EMPTY = (
    "empty the link's topics on {cluster}: kafka-topics.sh --delete --topic TOPIC for each of them"
    " (replication makes them anew where it keeps names), or kafka-delete-records.sh. What is"
    " nowhere else is saved by drctl gap --link {link} --scope full --view truncation --export DIR"
)
_BEGINNING, _WHY = "the first record of each partition", "everything is copied"


_HOW = {
    "confluent-replicator": (
        ": DELETE /connectors/NAME/offsets; with offset.start=consumer another"
        " src.consumer.group.id than that of the other direction; and"
        " provenance.header.filter.overrides for what once came from there, else it leaves all of"
        " that out"
    ),
}


def rebuilds(steps: Iterable[Step]) -> bool:
    """Whether they are those of a way home on which the returned cluster is filled anew."""
    return any(step.kind == EmptySource.name for step in steps)


def rebuild(way: WayBack, *, empty: bool) -> Plan:
    """The plan; the same way back gives the same plan.

    Args:
        empty: whether the returned cluster holds nothing of the link already.
    """
    home = way.home
    steps = (
        *closed(way, REBUILDING),
        *_given_up(way, empty),
        *_filled(way),
        *moved(way),
        *behind(way, anew=True),
    )
    return Plan(NAME, home.link, home.source, home.target, steps, home.basis, home.overrides)


def _given_up(way: WayBack, empty: bool) -> Iterator[Step]:
    """c, d, e: what only the returned cluster has is found and decided on; then it is emptied."""
    home = way.home
    ends = parts.ends(home)
    policies = {"policy": way.policy, "topics": list(way.topics), "conflicting": way.conflicting}
    yield Step("find-missing", "find-missing", {**ends, "rebuild": True}, 0)
    yield Step("judge-records", "judge-records", {**ends, **policies}, 0)
    yield Step("reconcile", "reconcile", {**ends, **policies}, 30)
    identity = f"empty-{home.target}"
    settings = {"cluster": home.target, "survivor": home.source}
    settings |= {"connector": way.seeded} if way.seeded else {}
    if not empty:
        settings |= parts.asked(identity, _EMPTY.format(cluster=home.target, link=home.link))
    yield Step(identity, EmptySource.name, settings, 600)


def _filled(way: WayBack) -> Iterator[Step]:
    """f, h: everything is copied, and compared before anybody waits for it."""
    home = way.home
    if way.seeded:
        yield Step("take-copies-along", "take-copies-along", {"connector": way.seeded}, 30)
        seeds = {**parts.ends(home), "connector": way.seeded}
        yield Step("begin-at-start", SeedFromStart.name, seeds, 30)
        yield Step("bring-home", "start-replication", starts(home, SeedFromStart.name), 180)
    else:
        yield by_hand(home, "bring-home", _BEGINNING, _WHY, _HOW, begins=START)
    at_most = max(way.at_most, IN_FLIGHT)
    scope = "tail" if home.connectors else "full"
    caught_up = {**parts.ends(home), "scope": scope, "at_most": at_most}
    if way.seeded:
        caught_up["connectors"] = [way.seeded]
    yield Step("caught-up", "caught-up", caught_up, home.patience_s)
    whole = {**parts.ends(home), "scope": "full", "at_most": at_most}
    yield Step("compare-all", "caught-up", whole, max(300, home.patience_s))
