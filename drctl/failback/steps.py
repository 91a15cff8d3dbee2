"""State of steps a, b, f and h to k of a failback: clusters, replication and clients.

`record_steps.py` has the other steps.
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
from drctl.model.text import plural
from drctl.model.topology import OffsetRange, TopicPartition, Unavailable


class Observed(StrEnum):
    """Whether a step is done, by what the clusters show."""

    DONE = "done"
    NOT_DONE = "not-done"
    UNKNOWN = "unknown"
    """Not visible from outside, or not reachable."""


@dataclass(frozen=True, slots=True)
class StepState:
    """The state of a step.

    Attributes:
        started: whether part of the step has happened, though it is not done.
    """

    observed: Observed
    why: str
    started: bool = False

    @property
    def happened(self) -> bool:
        """Whether all or part of the step has happened."""
        return self.started or self.observed is Observed.DONE


def done(why: str) -> StepState:
    """A step that is done."""
    return StepState(Observed.DONE, why)


def not_done(why: str, *, started: bool = False) -> StepState:
    """A step that is not done, or done only in part."""
    return StepState(Observed.NOT_DONE, why, started)


def unknown(why: str, *, started: bool = False) -> StepState:
    """A step whose state is not known."""
    return StepState(Observed.UNKNOWN, why, started)


def after_failback(seen: Situation) -> StepState | None:
    """The state of steps b to h once clients are back; None if they are not."""
    if seen.all_on_source is not True or seen.proof.holds is False:
        return None
    back = f"clients are back on {seen.facts.source}"
    if seen.proof.holds is None:
        return unknown(f"{back}; {seen.proof.why}")
    return done(
        f"{back}; comparisons in both directions found no unreplicated records and no duplicates;"
        f" later records are on {seen.facts.target} or in flight"
    )


def states(connectors: Iterable[Replicator]) -> str:
    """The states of connectors and their tasks, as text."""
    return several(f"connector {r.name} is {'+'.join(sorted(r.states))}" for r in connectors)


def fenced(seen: Situation) -> StepState:
    """Whether the source is healthy and fenced."""
    facts = seen.facts
    if isinstance(facts.on_source, Unavailable):
        return unknown(f"{facts.source}: {facts.on_source.reason}")
    fence_state = _fenced(seen)
    if seen.all_on_source is True and fence_state.observed is not Observed.DONE:
        back = f"clients are back on {facts.source}"
        if seen.proven:
            return done(f"{back}; comparisons in both directions found no difference")
        return unknown(
            f"{back} and its fence is lifted; whether it was fenced until then is not visible"
        )
    both = (_whole(facts), fence_state)
    for state in (Observed.NOT_DONE, Observed.UNKNOWN):
        text = [each.why for each in both if each.observed is state]
        if text:
            return StepState(state, several(text))
    return done(several(each.why for each in both))


def _whole(facts: Facts) -> StepState:
    health, name = facts.health, facts.source
    if isinstance(health, Unavailable):
        return unknown(f"health of {name}: {health.reason}")
    counted = (
        (health.missing, ("topic is missing", "topics are missing")),
        (health.offline, ("partition has no leader", "partitions have no leader")),
        (health.absent, ("broker is down", "brokers are down")),
        (
            [each.partition for each in health.under_replicated],
            ("partition is not in sync", "partitions are not in sync"),
        ),
    )
    broken = [f"{plural(len(what), *words)} ({listed(what)})" for what, words in counted if what]
    if broken:
        return not_done(f"{name} is not healthy: {several(broken)}")
    if health.unknown:
        return unknown(f"min.insync.replicas of {listed(sorted(health.unknown))} is unknown")
    if isinstance(health.controller, Unavailable):
        return unknown(f"controller of {name}: {health.controller.reason}")
    return done(
        f"{name} is healthy: every partition ({health.partitions:,}) has a leader and is in sync"
    )


def _fenced(seen: Situation) -> StepState:
    fence = seen.facts.fence
    if isinstance(fence, Unavailable):
        return unknown(f"fence of {seen.facts.source}: {fence.reason}")
    if fence.held is None:
        return unknown(fence.message)
    if not fence.held:
        return not_done(fence.message)
    # Reverse replication writes there, too.
    moved = {} if fence.no_writes is None or seen.reverse_runs else fence.no_writes.moved
    grown = [f"{place} by {ends.after - ends.before:,}" for place, ends in sorted(moved.items())]
    if grown:
        return not_done(f"{fence.message}, but logs grow: {several(grown)}")
    return done(fence.message)


def old_replication(seen: Situation) -> StepState:
    """Whether forward replication is stopped.

    Uses the user-supplied command where no connectors can be inspected.
    """
    facts, text = seen.facts, seen.facts.stopped
    if not isinstance(facts.forward, Unavailable):
        active = [each for each in facts.forward.found if not each.idle]
        copies = any(each.runs and each.copies for each in active)
        return _at_work(seen, states(active), copies) if active else _stopped(facts.forward)
    if isinstance(text, Stopped):
        return done(text.message) if text.held else _at_work(seen, text.message, copies=True)
    why = facts.forward.reason if text is None else text.reason
    return unknown(f"replication {facts.source} -> {facts.target}: {why}")


def _at_work(seen: Situation, text: str, copies: bool) -> StepState:
    source, target = seen.facts.source, seen.facts.target
    if seen.all_on_source is True:
        return _again(seen)
    if seen.unclear:
        return unknown(f"{text}: correct only if clients still use {source}", started=True)
    if copies:
        return not_done(
            f"{text}: it appends old records after newer ones on {target}", started=True
        )
    return not_done(f"{text}: it may resume at any time")


def _stopped(forward: Replication) -> StepState:
    if forward.missing:
        return unknown(
            f"Connect has no connector {listed(forward.missing)}: its name in drctl.yaml is wrong,"
            " or it was deleted, and the tool that manages it may recreate it"
        )
    if not forward.copying:
        return unknown("Connect has no connector that replicates this link")
    stopped = f"stopped: {listed([each.name for each in forward.found])}"
    paused = [each.name for each in forward.found if "PAUSED" in each.states]
    if paused:
        stopped += f"; only paused, so stop it: {listed(paused)}"
    return done(stopped)


def _again(seen: Situation) -> StepState:
    source = seen.facts.source
    if seen.proven:
        return done(
            "clients are back and forward replication runs again; comparisons in both directions"
            " found no difference"
        )
    return unknown(
        f"clients are back on {source} and forward replication runs again (step j); whether it was"
        " stopped until then is not visible"
    )


_SHOWN = 5
_AGAIN = "all records are copied twice"


def reverse_replication(seen: Situation) -> StepState:
    """Where reverse replication started, by its first record; else where it would start."""
    facts = seen.facts
    state = after_failback(seen)
    if state is not None:
        return state
    if seen.out_of_order_in:
        text = f"{out_of_order(seen)}; rebuild {facts.source}: {rebuild_command(facts.link)}"
        return not_done(text, started=seen.reverse_started)
    found = _where(seen)
    if isinstance(facts.out_of_order, Unavailable) and seen.first is not None:
        unknown_start = f"whether old records follow new ones on {facts.target} is unknown"
        return unknown(
            several((found.why, f"{unknown_start}: {facts.out_of_order.reason}")),
            started=found.started,
        )
    return found


def _where(seen: Situation) -> StepState:
    facts = seen.facts
    if isinstance(facts.on_source, Unavailable):
        return unknown(f"{facts.source}: {facts.on_source.reason}")
    if isinstance(facts.reverse, Unavailable):
        text = f"replication {facts.target} -> {facts.source}"
        return unknown(f"{text}: {facts.reverse.reason}", started=seen.reverse_started)
    arrived = seen.arrived
    wrong = [place for place, each in arrived.items() if each is ReverseStart.START]
    if wrong:
        return not_done(
            f"it started from the beginning of {listed(wrong)}: records that {facts.target} had"
            f" copied from {facts.source} are on {facts.source} twice",
            started=True,
        )
    unknown_start = _unreported(arrived, facts)
    if unknown_start and facts.reverse.never_ran:
        return not_done(f"it never ran; {unknown_start}")
    if unknown_start:
        return unknown(unknown_start, started=seen.reverse_started)
    if arrived:
        return _started(seen, facts.reverse, len(arrived))
    return _nothing_came(seen, facts.reverse)


def _unreported(arrived: Mapping[TopicPartition, ReverseStart | Unavailable], facts: Facts) -> str:
    text = [f"{p}: {each.reason}" for p, each in arrived.items() if isinstance(each, Unavailable)]
    elsewhere = [place for place, each in arrived.items() if each is ReverseStart.ELSEWHERE]
    if elsewhere:
        text.append(
            f"the first record added to {listed(elsewhere)} of {facts.source} is neither the first"
            f" new nor the oldest record of {facts.target}: another producer wrote it, or reverse"
            " replication started in between"
        )
    return several(text)


def _started(seen: Situation, reverse: Replication, partitions: int) -> StepState:
    text = (
        "it started at the boundary: the first record added to"
        f" {plural(partitions, 'partition')} of"
        f" {seen.facts.source} is the first new record of {seen.facts.target}"
    )
    if reverse.runs or seen.all_on_source is True:
        return done(text)
    return not_done(f"{text}; it does not run now: {states(reverse.copying)}", started=True)


def _nothing_came(seen: Situation, reverse: Replication) -> StepState:
    """Where reverse replication will start, by its stored offsets."""
    if not reverse.copying:
        named = f" {listed(reverse.missing)}" if reverse.missing else ""
        return not_done(f"Connect has no reverse connector{named} yet")
    text, started = states(reverse.copying), reverse.runs
    if elsewhere := written_elsewhere(seen.facts):
        wrong = several(f"{each.subject}: {each.reason}" for each in elsewhere)
        return not_done(f"{text}; {wrong}", started=started)
    positions: dict[TopicPartition, int] = {}
    for each in reverse.copying:
        if isinstance(each.positions, Unavailable):
            why = f"{text}; start offsets: {each.positions.reason}"
            return unknown(why, started=started)
        positions |= each.positions
    if seen.first is None:
        why = "the boundary is unknown until drctl gap has run"
        return not_done(f"{text}; {why}", started=started)
    if isinstance(seen.facts.boundaries, Unavailable):
        return unknown(f"{text}; {seen.facts.boundaries.reason}", started=started)
    diverged = seen.facts.diverged
    if seen.all_on_source is True and isinstance(diverged, str) and diverged:
        return not_done(f"clients are back on {seen.facts.source}, but {diverged}", started=started)
    wanted = {place: at for place, at in seen.boundaries.items() if held_before(place, at, seen)}
    if not positions.keys() & seen.boundaries.keys() and wanted:
        return _no_position(reverse, text)
    off = {p: positions.get(p, 0) for p, at in wanted.items() if positions.get(p, 0) != at}
    if off:
        why = f"{text}; {_off(off, wanted)}"
        return unknown(why, started=True) if started else not_done(why)
    if started:
        return done(f"{text} from the boundary; no new record has arrived yet")
    return not_done(f"{text}, start offsets are at the boundary: it can be started")


def held_before(place: TopicPartition, boundary: int, seen: Situation) -> bool:
    """Whether the target has records before the boundary, so that a start offset is needed."""
    target = seen.facts.on_target
    log = target.logs.get(place) if isinstance(target, Cluster) else None
    return not isinstance(log, OffsetRange) or boundary > log.start


def _no_position(reverse: Replication, text: str) -> StepState:
    names = ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset")
    if any(each.config.get(name) == "latest" for each in reverse.copying for name in names):
        return unknown(
            f"{text}; it has no stored offsets and starts at the end", started=reverse.runs
        )
    why = f"{text}; it has no stored offsets and starts from the beginning: {_AGAIN}"
    return not_done(why, started=reverse.runs)


def _off(off: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, int]) -> str:
    text = [f"{p}: start offset {at}, boundary {wanted[p]}" for p, at in off.items()]
    early = sum(at < wanted[p] for p, at in off.items())
    late = len(off) - early
    if early:
        text.append(
            f"{plural(early, 'partition starts', 'partitions start')} too early: records are copied"
            " twice"
        )
    if late:
        text.append(
            f"{plural(late, 'partition starts', 'partitions start')} too late: new records are"
            " skipped"
        )
    return "; ".join(text[-_SHOWN:])


def caught_up(seen: Situation) -> StepState:
    """The lag of reverse replication, and whether a comparison found unreplicated records."""
    facts = seen.facts
    source, target = facts.on_source, facts.on_target
    for name, end in ((facts.source, source), (facts.target, target)):
        if isinstance(end, Unavailable):
            return unknown(f"{name}: {end.reason}")
    assert isinstance(source, Cluster)
    assert isinstance(target, Cluster)
    state = after_failback(seen)
    if state is not None:
        return state
    if not seen.reverse_started:
        if isinstance(facts.reverse, Unavailable):
            return unknown(f"reverse replication: {facts.reverse.reason}")
        return not_done("reverse replication has not started (step f)")
    if seen.first is None:
        return unknown("lag unknown: the boundary is unknown until drctl gap has run")
    if isinstance(facts.boundaries, Unavailable):
        return unknown(facts.boundaries.reason)
    lag = behind(seen, source, target)
    if isinstance(lag, Unavailable):
        return unknown(lag.reason)
    text = f"{facts.source} lags by about {plural(lag, 'record')}; policy.max_lag_records is"
    if lag > facts.max_lag and _written_forward(seen):
        return unknown(
            f"clients are back on {facts.source} and forward replication runs; the lag when they"
            " switched is not visible"
        )
    if lag > facts.max_lag:
        return not_done(f"{text} {facts.max_lag:,}")
    return compared(seen, target, f"{text} {facts.max_lag:,}")


def _written_forward(seen: Situation) -> bool:
    """Whether forward replication adds records to the target, which looks like lag."""
    blind = isinstance(seen.facts.forward, Unavailable)
    return seen.all_on_source is True and (blind or seen.forward_runs)


def behind(seen: Situation, source: Cluster, target: Cluster) -> int | Unavailable:
    """About how many records are not replicated yet: counted if few, else by offsets."""
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
            return Unavailable(f"the end offset of {each.place} or of its copy is unknown")
        new, came = there.end - boundary, here.end - each.source.end
        # Differences of offsets include transaction markers. The connector's own offset may be more
        # exact, and a count of the records after it, without filtered copies, is the most exact.
        text = (
            there.end - positions.get(each.copy, boundary)
            if isinstance(waiting, Unavailable)
            else waiting.others.get(each.copy, 0)
        )
        total += max(0, min(new - came, text))
    return total


def compared(seen: Situation, target: Cluster, text: str) -> StepState:
    """Whether content was compared, too: offsets alone prove nothing."""
    facts = seen.facts
    newest = next(iter(facts.of_now(facts.reverse_gaps)), None)
    ask = f"run drctl gap --scope full from {facts.target} to {facts.source}"
    if newest is None or not _of_these(newest, seen, target):
        return unknown(f"{text}; content was not compared: {ask}")
    since = _written_since(newest, target)
    if since > facts.max_lag:
        return unknown(
            f"{text}; {plural(since, 'offset was', 'offsets were')} written since"
            f" {newest.label}: {ask}"
        )
    if newest.unreplicated:
        return not_done(
            f"{plural(newest.unreplicated, 'record is', 'records are')} not replicated to"
            f" {facts.source} ({newest.label})"
        )
    return done(f"{text}; a comparison found no unreplicated records ({newest.label})")


def _of_these(result: GapEvidence, seen: Situation, target: Cluster) -> bool:
    """Whether the result is complete, is of these clusters, and includes every new record."""
    source = seen.facts.on_source
    known = isinstance(source, Cluster) and result.is_whole_of(target.identity, source.identity)
    return known and seen.boundaries.keys() <= result.ends.keys()


def _written_since(result: GapEvidence, target: Cluster) -> int:
    logs = ((target.logs.get(place), end) for place, end in result.ends.items())
    return sum(max(0, log.end - end) for log, end in logs if isinstance(log, OffsetRange))


_SYNC = "sync.group.offsets.enabled"


def clients_switched(seen: Situation) -> StepState:
    """Where endpoints point to, and whether offsets were committed while groups were active."""
    facts = seen.facts
    early = () if seen.all_on_source is True else committed_while_active(seen)
    if early:
        text = several(f"{each.name} is active on {listed(each.active_on)}" for each in early)
        return not_done(
            f"offsets of active groups were committed on {facts.source}: {text}", started=True
        )
    if not facts.endpoints and seen.failed_back:
        return done(f"journal: run {seen.failed_back} failed back to {facts.source}")
    if not facts.endpoints:
        return unknown(
            "drctl.yaml has no endpoints of the link: cannot tell which cluster clients use"
        )
    if seen.all_on_source is True:
        return done(_all_switched(facts))
    started = bool(seen.endpoints_on_source)
    silent = [each.reason for each in facts.endpoints if isinstance(each, Unavailable)]
    if silent:
        return unknown(f"endpoints: {several(silent)}", started=started)
    states = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    text = several(map(_pointing, states))
    if any(each.cluster is None for each in states):
        return unknown(f"an endpoint points to an unknown cluster: {text}", started=started)
    if started:
        there = f"{len(seen.endpoints_on_source)} of {len(states)}"
        return not_done(f"endpoints that point to {facts.source}: {there} ({text})", started=True)
    unseen = "" if seen.rebuilding else _unseen(facts)
    if unseen:
        return unknown(f"groups: {unseen}")
    return not_done(f"endpoints point to {facts.target}: {text}{_committed_when(seen)}")


def _unseen(facts: Facts) -> str:
    """Why the activity or offsets of some groups are unknown."""
    if isinstance(facts.groups, Unavailable):
        return facts.groups.reason
    return several(f"{each.name}: {each.unseen}" for each in facts.groups if each.unseen)


def _committed_when(seen: Situation) -> str:
    """Names active groups whose source offsets may be from before or after the failover."""
    target, groups = seen.facts.target, seen.facts.known_groups
    names = [each.name for each in groups if each.positions and target in each.active_on]
    if not names:
        return ""
    return (
        f"; active groups with offsets on {seen.facts.source} that may be from before or after the"
        f" failover: {listed(names)}"
    )


def committed_while_active(seen: Situation) -> tuple[GroupState, ...]:
    """Active groups with source offsets beyond the log end at the time of the loss."""
    first = seen.first
    if first is None or seen.rebuilding:
        # Where records were lost, earlier offsets are beyond the log end.
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
    """Whether MirrorMaker 2 syncs group offsets continuously, which is safe."""
    found = facts.reverse.found if isinstance(facts.reverse, Replication) else ()
    return any(each.config.get(_SYNC) == "true" and each.runs for each in found)


def _pointing(state: EndpointState) -> str:
    """Where an endpoint points; with its name, unless the description contains it."""
    _kind, _, address = state.endpoint.partition(" ")
    named = address and address in state.message
    return state.message if named else f"{state.endpoint}: {state.message}"


def _all_switched(facts: Facts) -> str:
    states = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    waiting = [each.unfinished[0] for each in states if each.unfinished]
    text = f"every endpoint ({len(states):,}) points to {facts.source}"
    return f"{text}; not all clients have followed: {several(waiting)}" if waiting else text


def forward_restarted(seen: Situation) -> StepState:
    """Whether forward replication runs again and copies nothing twice."""
    facts = seen.facts
    text = facts.stopped if isinstance(facts.forward, Unavailable) else None
    if seen.failed_back and facts.forward == NO_WORKERS and text is None:
        return done(
            f"journal: run {seen.failed_back} finished; drctl.yaml names nothing else to check"
        )
    if isinstance(facts.forward, Unavailable) and not isinstance(text, Stopped):
        return unknown(f"forward replication: {facts.forward.reason}")
    if seen.all_on_source is False:
        return not_done("it starts after clients are switched (step i)")
    if isinstance(text, Stopped) and text.held:
        return not_done(text.message)
    if isinstance(facts.forward, Replication) and not facts.forward.runs:
        return not_done(f"it does not run{_seed(facts, facts.forward)}")
    if seen.all_on_source is None:
        return unknown(
            "forward replication runs; cannot tell which cluster clients use (steps b and i)"
        )
    if seen.proven:
        return done(
            "forward replication runs; comparisons in both directions found no unreplicated records"
            " and no duplicates"
        )
    if seen.failed_back:
        return done(
            f"forward replication runs; journal: run {seen.failed_back} set its start offsets"
        )
    return unknown(
        "forward replication runs; its start offset is not visible: run drctl gap --scope full;"
        " duplicated_on_target shows whether it copied records twice"
    )


def _seed(facts: Facts, forward: Replication) -> str:
    """What forward replication would copy again if started now."""
    source = facts.on_source
    if not isinstance(source, Cluster):
        return ""
    again = several(
        f"{place} from offset {offset} to {log.end}"
        for each in forward.copying
        if not isinstance(each.positions, Unavailable)
        for place, offset in sorted(each.positions.items())
        if isinstance(log := source.logs.get(place), OffsetRange) and offset < log.end
    )
    return f"; if started now it copies {again}: set its offsets first" if again else ""


def proven(seen: Situation) -> StepState:
    """Whether the result of the failback is verified; not all of it is visible."""
    if seen.all_on_source is False:
        return not_done("it is the last step")
    outstanding = _outstanding(seen.facts)
    if seen.failed_back:
        text = f"journal: run {seen.failed_back} failed back and verified every group"
        compared = "; comparisons in both directions found no difference" * seen.proven
        return not_done(f"{text}{outstanding}") if outstanding else done(f"{text}{compared}")
    if seen.proof.holds is None:
        return unknown(f"{seen.proof.why}{outstanding}")
    if not seen.proven:
        if seen.all_on_source is None:
            return unknown(f"{NO_PROOF}; cannot tell which cluster clients use{outstanding}")
        return not_done(f"{NO_PROOF}{outstanding}")
    return unknown(
        "comparisons in both directions found no undecided unreplicated records and no duplicates;"
        f" verify the offsets of the groups{outstanding}"
    )


def _outstanding(facts: Facts) -> str:
    """Outstanding actions according to the journal."""
    if isinstance(facts.journal, Unavailable):
        return f"; outstanding actions: {facts.journal.reason}"
    number = sum(len(run.outstanding) for run in facts.journal)
    return f"; {plural(number, 'outstanding action')}, see Journal" if number else ""
