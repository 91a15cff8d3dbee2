"""Judges steps a, b, f and h to k of a failback: clusters, replication and clients.

Each is done, not done, or unknown, and why; `record_steps.py` judges the others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from drctl.checks.check import listed, several
from drctl.failback.facts import (
    NO_WORKERS,
    Cluster,
    Copies,
    Facts,
    GroupState,
    Replication,
    Replicator,
    ReverseStart,
    Stopped,
)
from drctl.failback.gap_results import GapEvidence
from drctl.failback.reverse_destination import written_elsewhere
from drctl.failback.situation import NO_PROOF, Situation, out_of_order, rebuild_command
from drctl.model.endpoints import EndpointState
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


class Observed(StrEnum):
    """Whether a step has happened, as seen on the clusters."""

    DONE = "done"
    NOT_DONE = "not-done"
    UNKNOWN = "unknown"
    """Not visible from outside, or nobody answered: never a guess."""


@dataclass(frozen=True, slots=True)
class StepState:
    """What an observer says.

    Attributes:
        why: in words for a tired engineer.
        started: whether some of the step has happened, though it is not done.
    """

    observed: Observed
    why: str
    started: bool = False

    @property
    def happened(self) -> bool:
        """Whether all or some of it has."""
        return self.started or self.observed is Observed.DONE


def done(why: str) -> StepState:
    """It has happened."""
    return StepState(Observed.DONE, why)


def not_done(why: str, *, started: bool = False) -> StepState:
    """It has not, or not all of it."""
    return StepState(Observed.NOT_DONE, why, started)


def unknown(why: str, *, started: bool = False) -> StepState:
    """Nobody can see it from here."""
    return StepState(Observed.UNKNOWN, why, started)


def after_failback(seen: Situation) -> StepState | None:
    """By comparisons that found nothing; None where clients are not back, or there are none."""
    if seen.home is not True or seen.proof.holds is False:
        return None
    home = f"clients are home on {seen.facts.source}"
    if seen.proof.holds is None:
        return unknown(f"{home}; {seen.proof.why}")
    return done(
        f"{home}; comparisons both ways found nothing missing and nothing twice, and what was"
        f" written since is on {seen.facts.target}, too, or on its way"
    )


def states(connectors: Iterable[Replicator]) -> str:
    """What connectors and their tasks do, in words."""
    return several(f"connector {r.name} is {'+'.join(sorted(r.states))}" for r in connectors)


def fenced(seen: Situation) -> StepState:
    """Whether it is healthy inside, and closed to applications."""
    facts = seen.facts
    if isinstance(facts.on_source, Unavailable):
        return unknown(f"{facts.source} does not tell: {facts.on_source.reason}")
    closed = _closed(seen)
    if seen.home is True and closed.observed is not Observed.DONE:
        home = f"clients are home on {facts.source}"
        if seen.proven:
            return done(f"{home}; comparisons both ways found nothing wrong")
        return unknown(
            f"{home}, so its fence is lifted: whether it stood all the while cannot be seen any"
            " more"
        )
    both = (_whole(facts), closed)
    for state in (Observed.NOT_DONE, Observed.UNKNOWN):
        told = [each.why for each in both if each.observed is state]
        if told:
            return StepState(state, several(told))
    return done(several(each.why for each in both))


def _whole(facts: Facts) -> StepState:
    health, name = facts.health, facts.source
    if isinstance(health, Unavailable):
        return unknown(f"whether {name} is whole is not known: {health.reason}")
    counted = (
        (health.missing, "topics are gone"),
        (health.offline, "partitions have no leader"),
        (health.absent, "brokers are down"),
        ([each.partition for each in health.under_replicated], "partitions are not in sync"),
    )
    broken = [f"{len(what):,} {words} ({listed(what)})" for what, words in counted if what]
    if broken:
        return not_done(f"{name} is not whole: {several(broken)}")
    if health.unknown:
        return unknown(f"min.insync.replicas of {listed(sorted(health.unknown))} is not known")
    if isinstance(health.controller, Unavailable):
        return unknown(f"no controller of {name} is known: {health.controller.reason}")
    return done(
        f"{name} is whole: {health.partitions:,} of its partitions looked at, all led and in sync"
    )


def _closed(seen: Situation) -> StepState:
    fence = seen.facts.fence
    if isinstance(fence, Unavailable):
        return unknown(f"whether applications are kept away is not known: {fence.reason}")
    if fence.held is None:
        return unknown(fence.words)
    if not fence.held:
        return not_done(fence.words)
    # What copies back writes there, too.
    moved = {} if fence.no_writes is None or seen.reverse_runs else fence.no_writes.moved
    grown = [f"{place} by {ends.after - ends.before:,}" for place, ends in sorted(moved.items())]
    if grown:
        return not_done(f"{fence.words}, and yet somebody writes: {several(grown)}")
    return done(fence.words)


def old_replication(seen: Situation) -> StepState:
    """Whether the old tail can be appended behind newer records.

    Where no connectors can be looked at, the user-supplied command tells.
    """
    facts, told = seen.facts, seen.facts.stopped
    if not isinstance(facts.forward, Unavailable):
        active = [each for each in facts.forward.found if not each.idle]
        copies = any(each.runs and each.copies for each in active)
        return _at_work(seen, states(active), copies) if active else _stopped(facts.forward)
    if isinstance(told, Stopped):
        return done(told.words) if told.held else _at_work(seen, told.words, copies=True)
    why = facts.forward.reason if told is None else told.reason
    return unknown(f"what copies from {facts.source} to {facts.target} cannot be seen: {why}")


def _at_work(seen: Situation, told: str, copies: bool) -> StepState:
    source, target = seen.facts.source, seen.facts.target
    if seen.home is True:
        return _again(seen)
    if seen.unclear:
        left = "and whether they have left it cannot be seen"
        return unknown(f"{told}: rightly where clients use {source}, {left}", started=True)
    if copies:
        silently = f"it appends what {target} lacks behind newer records, silently"
        return not_done(f"{told}: {silently}", started=True)
    return not_done(f"{told}: it may go on at any moment")


def _stopped(forward: Replication) -> StepState:
    if forward.missing:
        return unknown(
            f"the workers have no connector {listed(forward.missing)}: it is misnamed in"
            " drctl.yaml, or was deleted, and whatever manages it may bring it back"
        )
    if not forward.copying:
        return unknown("the workers have no connector that copies this link: nobody knows what did")
    stopped = f"stopped: {listed([each.name for each in forward.found])}"
    paused = [each.name for each in forward.found if "PAUSED" in each.states]
    if paused:
        stopped += f"; only paused: {listed(paused)}, which keeps its connections: stop it"
    return done(stopped)


def _again(seen: Situation) -> StepState:
    source = seen.facts.source
    if seen.proven:
        return done(
            "clients are home, and it runs again; comparisons both ways found nothing wrong"
        )
    return unknown(
        f"clients are home on {source} and it runs again (step j): whether it was stopped before"
        " that cannot be seen any more"
    )


_SHOWN = 5
_AGAIN = "everything is copied a second time"


def reverse_replication(seen: Situation) -> StepState:
    """Where it began, by the first record that came; else where it would begin."""
    facts = seen.facts
    home = after_failback(seen)
    if home is not None:
        return home
    if seen.out_of_order_in:
        told = f"{out_of_order(seen)}; it has to be filled anew: {rebuild_command(facts.link)}"
        return not_done(told, started=seen.reverse_started)
    found = _where(seen)
    if isinstance(facts.out_of_order, Unavailable) and seen.first is not None:
        untold = f"whether old records stand behind new ones of {facts.target} is not known"
        return unknown(
            several((found.why, f"{untold}: {facts.out_of_order.reason}")), started=found.started
        )
    return found


def _where(seen: Situation) -> StepState:
    facts = seen.facts
    if isinstance(facts.on_source, Unavailable):
        return unknown(f"what came to {facts.source} cannot be seen: {facts.on_source.reason}")
    if isinstance(facts.reverse, Unavailable):
        told = f"what copies from {facts.target} to {facts.source} cannot be seen"
        return unknown(f"{told}: {facts.reverse.reason}", started=seen.reverse_started)
    arrived = seen.arrived
    wrong = [place for place, each in arrived.items() if each is ReverseStart.START]
    if wrong:
        return not_done(
            f"it began at the beginning of {listed(wrong)}: {_AGAIN}, what {facts.target} once had"
            f" from {facts.source} is on {facts.source} twice",
            started=True,
        )
    untold = _untold(arrived, facts)
    if untold and facts.reverse.never_ran:
        return not_done(f"nothing has copied back yet; {untold}")
    if untold:
        return unknown(untold, started=seen.reverse_started)
    if arrived:
        return _started(seen, facts.reverse, len(arrived))
    return _nothing_came(seen, facts.reverse)


def _untold(arrived: Mapping[TopicPartition, ReverseStart | Unavailable], facts: Facts) -> str:
    told = [f"{p}: {each.reason}" for p, each in arrived.items() if isinstance(each, Unavailable)]
    elsewhere = [place for place, each in arrived.items() if each is ReverseStart.ELSEWHERE]
    if elsewhere:
        told.append(
            f"what came first to {listed(elsewhere)} of {facts.source} is neither the first new"
            f" record of {facts.target} nor its oldest: somebody else wrote it, or the way back"
            " began in between"
        )
    return several(told)


def _started(seen: Situation, reverse: Replication, partitions: int) -> StepState:
    told = (
        f"it began at the boundary: what came first to {partitions:,} partitions of"
        f" {seen.facts.source} is the first new record of {seen.facts.target}"
    )
    if reverse.runs or seen.home is True:
        return done(told)
    return not_done(f"{told}; now it does not run: {states(reverse.copying)}", started=True)


def _nothing_came(seen: Situation, reverse: Replication) -> StepState:
    """Where it would begin, or will, by the positions that it keeps."""
    if not reverse.copying:
        named = f" {listed(reverse.missing)}" if reverse.missing else ""
        return not_done(f"the workers have no connector{named} that copies back yet")
    told, started = states(reverse.copying), reverse.runs
    if elsewhere := written_elsewhere(seen.facts):
        wrong = several(f"{each.subject}: {each.reason}" for each in elsewhere)
        return not_done(f"{told}; {wrong}", started=started)
    positions: dict[TopicPartition, int] = {}
    for each in reverse.copying:
        if isinstance(each.positions, Unavailable):
            why = f"{told}; where it would begin is not known: {each.positions.reason}"
            return unknown(why, started=started)
        positions |= each.positions
    if seen.first is None:
        why = "no result of drctl gap tells where new records begin"
        return not_done(f"{told}; {why}", started=started)
    if isinstance(seen.facts.boundaries, Unavailable):
        return unknown(f"{told}; {seen.facts.boundaries.reason}", started=started)
    diverged = seen.facts.diverged
    if seen.home is True and isinstance(diverged, str) and diverged:
        return not_done(f"clients are home on {seen.facts.source}, and {diverged}", started=started)
    wanted = {place: at for place, at in seen.boundaries.items() if held_before(place, at, seen)}
    if not positions.keys() & seen.boundaries.keys() and wanted:
        return _no_position(reverse, told)
    off = {p: positions.get(p, 0) for p, at in wanted.items() if positions.get(p, 0) != at}
    if off:
        why = f"{told}; {_off(off, wanted)}"
        return unknown(why, started=True) if started else not_done(why)
    if started:
        return done(f"{told}, from the boundary on; nothing new has come yet")
    return not_done(f"{told}, and its position is the boundary: it can be started")


def held_before(place: TopicPartition, boundary: int, seen: Situation) -> bool:
    """Whether the target holds something before the boundary, so that a position is needed."""
    target = seen.facts.on_target
    log = target.logs.get(place) if isinstance(target, Cluster) else None
    return not isinstance(log, OffsetRange) or boundary > log.start


def _no_position(reverse: Replication, told: str) -> StepState:
    names = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset")
    if any(each.config.get(name) == "latest" for each in reverse.copying for name in names):
        return unknown(f"{told}; it keeps no position, and begins at the end", started=reverse.runs)
    why = f"{told}, and keeps no position: it begins at the beginning, and {_AGAIN}"
    return not_done(why, started=reverse.runs)


def _off(off: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]) -> str:
    told = [f"{p}: it stands at {at}, the boundary is {wanted[p]}" for p, at in off.items()]
    early = sum(at < wanted[p] for p, at in off.items())
    late = len(off) - early
    if early:
        told.append(f"{early:,} partitions begin too early, and are copied twice")
    if late:
        told.append(f"{late:,} begin too late, and what is new before that is left out")
    return "; ".join(told[-_SHOWN:])


def caught_up(seen: Situation) -> StepState:
    """How far reverse replication lags, and whether a comparison found anything missing."""
    facts = seen.facts
    source, target = facts.on_source, facts.on_target
    for name, end in ((facts.source, source), (facts.target, target)):
        if isinstance(end, Unavailable):
            return unknown(f"{name} does not tell: {end.reason}")
    assert isinstance(source, Cluster)
    assert isinstance(target, Cluster)
    home = after_failback(seen)
    if home is not None:
        return home
    if not seen.reverse_started:
        if isinstance(facts.reverse, Unavailable):
            return unknown(f"what copies back cannot be seen: {facts.reverse.reason}")
        return not_done("nothing copies back yet (step f)")
    if seen.first is None:
        return unknown("no result of drctl gap tells where new records begin: the lag is not known")
    if isinstance(facts.boundaries, Unavailable):
        return unknown(facts.boundaries.reason)
    lag = behind(seen, source, target)
    if isinstance(lag, Unavailable):
        return unknown(lag.reason)
    told = f"{facts.source} is about {lag:,} records behind; policy.max_lag_records is"
    if lag > facts.max_lag and _written_forward(seen):
        return unknown(
            f"clients are home on {facts.source}, and what they write comes to {facts.target}: how"
            " far it was behind when they came cannot be told any more"
        )
    if lag > facts.max_lag:
        return not_done(f"{told} {facts.max_lag:,}")
    return compared(seen, target, f"{told} {facts.max_lag:,}")


def _written_forward(seen: Situation) -> bool:
    """Whether the target grows by what comes from the source, which looks like lag."""
    blind = isinstance(seen.facts.forward, Unavailable)
    return seen.home is True and (blind or seen.forward_runs)


def behind(seen: Situation, source: Cluster, target: Cluster) -> int | Unavailable:
    """About how many records have still to come: counted where they are few, else by offsets."""
    new, came = seen.facts.drctl_copies, seen.facts.returned_copies
    if isinstance(new, Copies) and new.whole and isinstance(came, Copies):
        assert seen.first is not None
        return sum(
            max(0, new.others.get(each.copy, 0) - came.others.get(each.place, 0))
            for each in seen.first.partitions
        )
    return _by_offsets(seen, source, target)


def _by_offsets(seen: Situation, source: Cluster, target: Cluster) -> int | Unavailable:
    assert seen.first is not None
    reverse, waiting = seen.facts.reverse, seen.facts.pending
    positions = {} if isinstance(reverse, Unavailable) else reverse.positions
    total = 0
    for each in seen.first.partitions:
        here, there = source.logs.get(each.place), target.logs.get(each.copy)
        boundary = seen.boundaries.get(each.copy)
        if boundary is None:
            continue
        if not isinstance(here, OffsetRange) or not isinstance(there, OffsetRange):
            return Unavailable(f"where {each.place} or its copy ends is not known")
        new, came = there.end - boundary, here.end - each.source.end
        # Ends of transactions are offsets and no records: the connector's own word may be nearer,
        # and nearer yet what stands behind that, without the copies that it leaves out.
        told = (
            there.end - positions.get(each.copy, boundary)
            if isinstance(waiting, Unavailable)
            else waiting.others.get(each.copy, 0)
        )
        total += max(0, min(new - came, told))
    return total


def compared(seen: Situation, target: Cluster, told: str) -> StepState:
    """Whether content was compared, too: offsets alone are no proof."""
    facts = seen.facts
    newest = next(iter(facts.of_now(facts.reverse_gaps)), None)
    ask = f"drctl gap --scope full from {facts.target} to {facts.source} tells"
    if newest is None or not _of_these(newest, seen, target):
        return unknown(f"{told}; whether anything is missing there was not compared: {ask}")
    since = _written_since(newest, target)
    if since > facts.max_lag:
        return unknown(f"{told}; {since:,} offsets were written since {newest.told}: {ask}")
    if newest.unreplicated:
        return not_done(f"{newest.unreplicated:,} records are missing there ({newest.told})")
    return done(f"{told}; a comparison found nothing missing ({newest.told})")


def _of_these(result: GapEvidence, seen: Situation, target: Cluster) -> bool:
    """Whether it is whole, and about these clusters and all that is new."""
    source = seen.facts.on_source
    known = isinstance(source, Cluster) and result.is_whole_of(target.identity, source.identity)
    return known and seen.boundaries.keys() <= result.ends.keys()


def _written_since(result: GapEvidence, target: Cluster) -> int:
    logs = ((target.logs.get(place), end) for place, end in result.ends.items())
    return sum(max(0, log.end - end) for log, end in logs if isinstance(log, OffsetRange))


_SYNC = "sync.group.offsets.enabled"


def clients_switched(seen: Situation) -> StepState:
    """Where clients are sent, and whether positions were committed under readers."""
    facts = seen.facts
    early = () if seen.home is True else committed_while_active(seen)
    if early:
        told = several(f"{each.name} reads on {listed(each.active_on)}" for each in early)
        return not_done(
            f"positions of groups were committed on {facts.source} while they are read in: {told}",
            started=True,
        )
    if not facts.endpoints and seen.failed_back:
        return done(f"by the journal run {seen.failed_back} led clients back to {facts.source}")
    if not facts.endpoints:
        return unknown("the link has no endpoints in drctl.yaml: where clients are is not visible")
    if seen.home is True:
        return done(_all_switched(facts))
    started = bool(seen.endpoints_on_source)
    silent = [each.reason for each in facts.endpoints if isinstance(each, Unavailable)]
    if silent:
        return unknown(f"not every endpoint tells: {several(silent)}", started=started)
    states = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    told = several(f"{each.endpoint}: {each.words}" for each in states)
    if any(each.cluster is None for each in states):
        return unknown(f"an endpoint leads to no known cluster: {told}", started=started)
    if started:
        leads = f"{len(seen.endpoints_on_source)} of {len(states)} endpoints lead to {facts.source}"
        return not_done(f"{leads}: {told}", started=True)
    unseen = "" if seen.rebuilding else _unseen(facts)
    if unseen:
        return unknown(f"whether positions were committed too early is not known: {unseen}")
    return not_done(f"clients are sent to {facts.target}: {told}{_committed_when(seen)}")


def _unseen(facts: Facts) -> str:
    """Why it is not known of all groups where they are read in, and where they stand."""
    if isinstance(facts.groups, Unavailable):
        return facts.groups.reason
    return several(f"{each.name}: {each.unseen}" for each in facts.groups if each.unseen)


def _committed_when(seen: Situation) -> str:
    """Positions that may be of before the loss, or translated since: both look alike."""
    target, groups = seen.facts.target, seen.facts.known_groups
    names = [each.name for each in groups if each.positions and target in each.active_on]
    if not names:
        return ""
    return (
        f"; positions on {seen.facts.source} of groups that are read in lie within what it had when"
        f" it was lost: whether they were committed since cannot be told: {listed(names)}"
    )


def committed_while_active(seen: Situation) -> tuple[GroupState, ...]:
    """Groups with members whose positions on the source lie behind all that it had when lost."""
    first = seen.first
    if first is None or seen.rebuilding:
        # Where records were lost, positions of before it lie behind all that is there.
        return ()
    where = {seen.facts.source} if _synced(seen.facts) else {seen.facts.source, seen.facts.target}
    ends = first.ends
    return tuple(
        group
        for group in seen.facts.known_groups
        if where.intersection(group.active_on)
        and any(offset > ends.get(place, offset) for place, offset in group.positions.items())
    )


def _synced(facts: Facts) -> bool:
    """Whether MirrorMaker 2 keeps the positions up to date all the while, as it may."""
    found = facts.reverse.found if isinstance(facts.reverse, Replication) else ()
    return any(each.config.get(_SYNC) == "true" and each.runs for each in found)


def _all_switched(facts: Facts) -> str:
    states = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    waiting = [each.unfinished[0] for each in states if each.unfinished]
    told = f"all {len(states)} endpoints lead to {facts.source}"
    return f"{told}; not everybody has followed: {several(waiting)}" if waiting else told


def forward_restarted(seen: Situation) -> StepState:
    """Whether it runs for clients that are back, and copies nothing twice."""
    facts = seen.facts
    told = facts.stopped if isinstance(facts.forward, Unavailable) else None
    if seen.failed_back and facts.forward == NO_WORKERS and told is None:
        return done(f"by the journal: run {seen.failed_back} came to its end; nothing else tells")
    if isinstance(facts.forward, Unavailable) and not isinstance(told, Stopped):
        return unknown(f"what copies forward cannot be seen: {facts.forward.reason}")
    if seen.home is False:
        return not_done("it comes behind the switchover home (step i)")
    if isinstance(told, Stopped) and told.held:
        return not_done(told.words)
    if isinstance(facts.forward, Replication) and not facts.forward.runs:
        return not_done(f"it does not run{_seed(facts, facts.forward)}")
    if seen.home is None:
        return unknown("it runs, and where clients are is not visible: see steps b and i")
    if seen.proven:
        return done("it runs; comparisons both ways found nothing missing and nothing twice")
    if seen.failed_back:
        return done(f"it runs; by the journal run {seen.failed_back} set where it begins")
    return unknown(
        "it runs; whether it began at the switchover cannot be seen from outside:"
        " duplicated_on_target of a full drctl gap tells"
    )


def _seed(facts: Facts, forward: Replication) -> str:
    """What it would copy again, started as it is."""
    source = facts.on_source
    if not isinstance(source, Cluster):
        return ""
    again = several(
        f"{place} from {offset}, which ends at {log.end}"
        for each in forward.copying
        if not isinstance(each.positions, Unavailable)
        for place, offset in sorted(each.positions.items())
        if isinstance(log := source.logs.get(place), OffsetRange) and offset < log.end
    )
    return f"; started as it stands it copies {again}: set its position first" if again else ""


def proven(seen: Situation) -> StepState:
    """What of it can be seen from outside: never all."""
    if seen.home is False:
        return not_done("it comes last")
    outstanding = _outstanding(seen.facts)
    if seen.failed_back:
        told = f"by the journal run {seen.failed_back} led clients back, and saw every group there"
        compared = "; comparisons both ways found nothing wrong" * seen.proven
        return not_done(f"{told}{outstanding}") if outstanding else done(f"{told}{compared}")
    if seen.proof.holds is None:
        return unknown(f"{seen.proof.why}{outstanding}")
    if not seen.proven:
        if seen.home is None:
            return unknown(f"{NO_PROOF}, and where clients are is not visible{outstanding}")
        return not_done(f"{NO_PROOF}{outstanding}")
    return unknown(
        "comparisons both ways found nothing missing but what was decided on, and nothing twice;"
        f" whether every group stands where it should cannot be seen from here{outstanding}"
    )


def _outstanding(facts: Facts) -> str:
    """What the journal says of it."""
    if isinstance(facts.journal, Unavailable):
        return f"; what is owed is not known: {facts.journal.reason}"
    outstanding = [f"{what} (run {run.run})" for run in facts.journal for what in run.outstanding]
    return f"; by the journal it is owed: {several(outstanding)}" if outstanding else ""
