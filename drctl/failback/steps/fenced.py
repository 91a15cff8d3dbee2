"""Step a: the source is whole again, and applications cannot write to it."""

from drctl.checks.wording import listed, several
from drctl.failback.facts import Facts, Fence
from drctl.failback.situation import Situation
from drctl.failback.step import Observed, Seen, done, not_done, unknown
from drctl.model.fencing import Moved, Stillness
from drctl.model.health import ClusterHealth
from drctl.model.topology import TopicPartition, Unavailable


def fenced(seen: Situation) -> Seen:
    """Whether it is healthy inside, and closed to applications."""
    facts = seen.facts
    if isinstance(facts.on_source, Unavailable):
        return unknown(f"{facts.source} does not tell: {facts.on_source.reason}")
    closed = _closed(seen)
    if seen.home is True and closed.observed is not Observed.DONE:
        return _afterwards(seen)
    both = (_whole(facts), closed)
    for state in (Observed.NOT_DONE, Observed.UNKNOWN):
        told = [each.why for each in both if each.observed is state]
        if told:
            return Seen(state, several(told))
    return done(several(each.why for each in both))


def _afterwards(seen: Situation) -> Seen:
    source = seen.facts.source
    if seen.proven:
        return done(f"clients are home on {source}; comparisons both ways found nothing wrong")
    return unknown(
        f"clients are home on {source}, so its fence is lifted: whether it stood all the while"
        " cannot be seen any more"
    )


def _whole(facts: Facts) -> Seen:
    health, name = facts.health, facts.source
    if isinstance(health, Unavailable):
        return unknown(f"whether {name} is whole is not known: {health.reason}")
    broken = _broken(health)
    if broken:
        return not_done(f"{name} is not whole: {several(broken)}")
    if health.unknown:
        return unknown(f"min.insync.replicas of {listed(sorted(health.unknown))} is not known")
    if isinstance(health.controller, Unavailable):
        return unknown(f"no controller of {name} is known: {health.controller.reason}")
    return done(
        f"{name} is whole: {health.partitions:,} of its partitions looked at, all led and in sync"
    )


def _broken(health: ClusterHealth) -> tuple[str, ...]:
    behind = [each.partition for each in health.under_replicated]
    told = (
        (health.missing, "topics are gone"),
        (health.offline, "partitions have no leader"),
        (health.absent, "brokers are down"),
        (behind, "partitions are not in sync"),
    )
    return tuple(f"{len(what):,} {words} ({listed(what)})" for what, words in told if what)


def _closed(seen: Situation) -> Seen:
    fence = seen.facts.fence
    if isinstance(fence, Unavailable):
        return unknown(f"whether applications are kept away is not known: {fence.reason}")
    if fence.held is None:
        return unknown(fence.words)
    if not fence.held:
        return not_done(fence.words)
    grown = _grown(fence, seen)
    return not_done(grown) if grown else done(fence.words)


def _moved(stillness: Stillness) -> list[tuple[TopicPartition, Moved]]:
    return sorted(stillness.moved.items())


def _grown(fence: Fence, seen: Situation) -> str:
    """What grew behind the fence, though nothing copies back; empty where nothing did."""
    if fence.stillness is None or seen.way_back_runs:
        return ""
    moved = [f"{place} by {ends.after - ends.before:,}" for place, ends in _moved(fence.stillness)]
    return f"{fence.words}, and yet somebody writes: {several(moved)}" if moved else ""
