"""Step f: what is new on the target comes to the source, from the boundary on, and nothing else."""

from collections.abc import Mapping

from drctl.checks.wording import listed, several
from drctl.failback.facts import Began, Cluster, Facts, Replication, Replicator
from drctl.failback.situation import Situation
from drctl.failback.standing_behind import anew, stand_behind
from drctl.failback.step import Seen, done, not_done, unknown
from drctl.failback.steps.afterwards import afterwards
from drctl.failback.written_to import written_elsewhere
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable

_SHOWN = 5
_AGAIN = "everything is copied a second time"


def reverse_replication(seen: Situation) -> Seen:
    """Where it began, by the first record that came; else where it would begin."""
    facts = seen.facts
    home = afterwards(seen)
    if home is not None:
        return home
    if seen.stand_behind:
        told = f"{stand_behind(seen)}; it has to be filled anew: {anew(facts.link)}"
        return not_done(told, begun=seen.way_back_begun)
    found = _where(seen)
    if isinstance(facts.behind, Unavailable) and seen.first is not None:
        untold = f"whether old records stand behind new ones of {facts.target} is not known"
        return unknown(several((found.why, f"{untold}: {facts.behind.reason}")), begun=found.begun)
    return found


def _where(seen: Situation) -> Seen:
    facts = seen.facts
    if isinstance(facts.on_source, Unavailable):
        return unknown(f"what came to {facts.source} cannot be seen: {facts.on_source.reason}")
    if isinstance(facts.reverse, Unavailable):
        told = f"what copies from {facts.target} to {facts.source} cannot be seen"
        return unknown(f"{told}: {facts.reverse.reason}", begun=seen.way_back_begun)
    arrived = seen.arrived
    wrong = [place for place, each in arrived.items() if each is Began.START]
    if wrong:
        return not_done(
            f"it began at the beginning of {listed(wrong)}: {_AGAIN}, what {facts.target} once had"
            f" from {facts.source} is on {facts.source} twice",
            begun=True,
        )
    untold = _untold(arrived, facts)
    if untold and facts.reverse.never_ran:
        return not_done(f"nothing has copied back yet; {untold}")
    if untold:
        return unknown(untold, begun=seen.way_back_begun)
    if arrived:
        return _begun(seen, facts.reverse, len(arrived))
    return _nothing_came(seen, facts.reverse)


def _untold(arrived: Mapping[TopicPartition, Began | Unavailable], facts: Facts) -> str:
    told = [f"{p}: {each.reason}" for p, each in arrived.items() if isinstance(each, Unavailable)]
    elsewhere = [place for place, each in arrived.items() if each is Began.ELSEWHERE]
    if elsewhere:
        told.append(
            f"what came first to {listed(elsewhere)} of {facts.source} is neither the first new"
            f" record of {facts.target} nor its oldest: somebody else wrote it, or the way back"
            " began in between"
        )
    return several(told)


def _begun(seen: Situation, reverse: Replication, partitions: int) -> Seen:
    told = (
        f"it began at the boundary: what came first to {partitions:,} partitions of"
        f" {seen.facts.source} is the first new record of {seen.facts.target}"
    )
    if reverse.runs or seen.home is True:
        return done(told)
    return not_done(f"{told}; now it does not run: {states(reverse)}", begun=True)


def _nothing_came(seen: Situation, reverse: Replication) -> Seen:
    """Where it would begin, or will, by the positions that it keeps."""
    if not reverse.copying:
        named = f" {listed(reverse.missing)}" if reverse.missing else ""
        return not_done(f"the workers have no connector{named} that copies back yet")
    told, begun = states(reverse), reverse.runs
    if elsewhere := written_elsewhere(seen.facts):
        wrong = several(f"{each.subject}: {each.reason}" for each in elsewhere)
        return not_done(f"{told}; {wrong}", begun=begun)
    positions: dict[TopicPartition, int] = {}
    for each in reverse.copying:
        if isinstance(each.positions, Unavailable):
            why = f"{told}; where it would begin is not known: {each.positions.reason}"
            return unknown(why, begun=begun)
        positions |= each.positions
    if seen.first is None:
        why = "no result of drctl gap tells where new records begin"
        return not_done(f"{told}; {why}", begun=begun)
    if isinstance(seen.facts.boundaries, Unavailable):
        return unknown(f"{told}; {seen.facts.boundaries.reason}", begun=begun)
    apart = seen.facts.apart
    if seen.home is True and isinstance(apart, str) and apart:
        return not_done(f"clients are home on {seen.facts.source}, and {apart}", begun=begun)
    wanted = {place: at for place, at in seen.boundaries.items() if held_before(place, at, seen)}
    if not positions.keys() & seen.boundaries.keys() and wanted:
        return _no_position(reverse, told)
    off = {p: positions.get(p, 0) for p, at in wanted.items() if positions.get(p, 0) != at}
    if off:
        why = f"{told}; {_off(off, wanted)}"
        return unknown(why, begun=True) if begun else not_done(why)
    if begun:
        return done(f"{told}, from the boundary on; nothing new has come yet")
    return not_done(f"{told}, and its position is the boundary: it can be started")


def held_before(place: TopicPartition, boundary: int, seen: Situation) -> bool:
    """Whether the target holds something before the boundary, so that a position is needed."""
    target = seen.facts.on_target
    log = target.logs.get(place) if isinstance(target, Cluster) else None
    return not isinstance(log, OffsetRange) or boundary > log.start


def _no_position(reverse: Replication, told: str) -> Seen:
    if _from_the_end(reverse.copying):
        return unknown(f"{told}; it keeps no position, and begins at the end", begun=reverse.runs)
    why = f"{told}, and keeps no position: it begins at the beginning, and {_AGAIN}"
    return not_done(why, begun=reverse.runs)


def _off(off: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]) -> str:
    told = [f"{p}: it stands at {at}, the boundary is {wanted[p]}" for p, at in off.items()]
    early = sum(at < wanted[p] for p, at in off.items())
    late = len(off) - early
    if early:
        told.append(f"{early:,} partitions begin too early, and are copied twice")
    if late:
        told.append(f"{late:,} begin too late, and what is new before that is left out")
    return "; ".join(told[-_SHOWN:])


def _from_the_end(copying: tuple[Replicator, ...]) -> bool:
    names = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset")
    return any(each.connector.config.get(name) == "latest" for each in copying for name in names)


def states(reverse: Replication) -> str:
    """What its connectors and their tasks do, in words."""
    return several(f"connector {r.name} is {'+'.join(sorted(r.states))}" for r in reverse.copying)
