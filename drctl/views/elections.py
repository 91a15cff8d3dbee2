"""The output of `drctl elect`: states, plans and results."""

from collections.abc import Iterable, Iterator, Sequence

from drctl.elections.cluster_state import Partition, PartitionStates, Replica
from drctl.elections.planning import Action, Blocker, ElectionPlan, Line
from drctl.elections.results import ElectionResult, LineResult
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.views.text import number, plain, sentence
from drctl.views.view import (
    MOST,
    Part,
    Text,
    counted,
    heading,
    listing,
    more,
    notes,
    section,
    table,
    view,
)


@view
def show_table(cluster: str, states: PartitionStates) -> Iterator[Part]:
    """Show partitions without a leader, with each replica."""
    leaderless = states.leaderless
    partitions = plural(len(states.partitions), "partition")
    state = f"{partitions}, all have a leader"
    if leaderless:
        state = f"{len(leaderless)} of {partitions} without a leader"
    yield Text(f"Cluster {plain(cluster)}: {state}", "bold")
    yield Text(f"brokers that answer: {_nodes(sorted(states.alive))}", "dim")
    for node, why in sorted(states.silent.items()):
        yield Text(f"broker {node}: {sentence(why.reason)}", "yellow")
    if isinstance(states.controller, Unavailable):
        reason = sentence(states.controller.reason)
        yield Text(f"no controller: {reason}; no leader can be elected without one", "yellow")
    for name in states.absent:
        yield Text(f"topic {plain(name)} does not exist", "yellow")
    if leaderless:
        rows = (row for each in leaderless[:MOST] for row in _replicas(each, states))
        yield table(rows, "Topic", "Part.", "Broker", "Up", "Replica state", "Log end")
        yield from more(len(leaderless) - MOST)


def _replicas(each: Partition, states: PartitionStates) -> Iterator[tuple[str, ...]]:
    for node in each.replicas:
        end = states.log_ends.get(Replica(each.place, node))
        yield (
            plain(each.place.topic),
            str(each.place.partition),
            str(node),
            "yes" if node in states.alive else "no",
            _replica_state(each, node),
            number(end) if isinstance(end, int) else "?",
        )


def _replica_state(each: Partition, node: int) -> str:
    if node in each.in_sync:
        return "in sync"
    if node in (each.eligible or ()):
        return "eligible (complete)"
    if node in (each.last_known or ()):
        return "last known eligible"
    return "out of sync" if each.eligible is not None else "out of sync (ELR not reported)"


_PLANNED = {Action.ELECT: "to elect", Action.NOTHING: "unchanged", Action.REFUSE: "refused"}


@view
def plan_table(plan: ElectionPlan, execute: str) -> Iterator[Part]:
    """Show the plan, and the command that executes it."""
    yield Text(
        f"{_headline(plan)}: {counted(_PLANNED[line.action] for line in plan.lines)}", "bold"
    )
    yield from notes(plan.notes, plan.overrides.items())
    yield from listing([*plan.refused, *plan.elected], _cells, *_COLUMNS)
    yield from _losses(plan.lines)
    yield from _blockers("Blockers", [(e.place, o) for e in plan.refused for o in e.refused])
    yield from _blockers("Overridden", [(e.place, o) for e in plan.lines for o in e.overridden])
    if plan.elected:
        yield from section("No election was held. To execute:", [plain(execute)])
    elif plan.refused:
        yield heading("No election runs until every blocker is fixed or overridden.")
        prechecks = {each.precheck for line in plan.refused for each in line.refused}
        if all(precheck.overridable for precheck in prechecks):
            words = " ".join(f"--override {precheck}=REASON" for precheck in sorted(prechecks))
            yield Text(f"To override: {words}")
    else:
        yield heading("No elections are needed.")


@view
def result_table(result: ElectionResult) -> Iterator[Part]:
    """Show the result, with the measured loss."""
    plan = result.plan
    outcomes = counted(each.outcome for each in result.results)
    yield Text(f"{_headline(plan)}: {outcomes}", "bold")
    if result.run:
        yield Text(f"in {result.seconds:.1f} s, journal {plain(result.journal)}", "dim")
    yield from notes(plan.notes, plan.overrides.items())
    yield from listing(result.results, _result_cells, *_RESULT_COLUMNS)
    yield from _measured([each for each in result.results if each.cut is not None])
    refused = [(each.line.place, o) for each in result.results for o in each.blockers]
    yield from _blockers("Blockers", refused)
    for each in result.results:
        if reason := each.election.reason:
            yield Text(f"  {plain(str(each.line.place))}: {sentence(reason)}")
    if result.resume:
        yield from section(
            "The election has not ended. To check its state and resume:", [result.resume]
        )


def _result_cells(each: LineResult) -> tuple[str, ...]:
    seen, place = each.line.partition, each.line.place
    leaders = _node(seen.leader if seen else None), _node(each.election.leader)
    return plain(place.topic), str(place.partition), *leaders, each.outcome.value


def _measured(results: Sequence[LineResult]) -> Iterator[Text]:
    if results:
        yield heading("Measured loss")
    for each in results:
        yield Text(f"  {plain(str(each.line.place))}: {measured(each)}")
        if each.line.loss and each.line.loss.beyond:
            groups = ", ".join(plain(row.group) for row in each.line.loss.beyond)
            yield Text(f"    groups with offsets beyond the end of the log: {groups}", "yellow")
    if results:
        yield Text(
            "  other replicas truncate their logs to that of the new leader when they return", "dim"
        )


def measured(each: LineResult) -> str:
    """Describe the measured loss of one partition, from the new leader's log."""
    if isinstance(each.cut, Unavailable):
        return f"unknown: {sentence(each.cut.reason)}"
    kept = f"the kept log ended at {each.cut}"
    change = "" if each.as_stated else " (not as planned)"
    lost = each.lost
    if lost is None:
        return f"{kept}{change}; how much was lost is unknown"
    if not lost.span:
        return f"{kept}{change}; no loss is known"
    least = "" if each.line.loss and each.line.loss.exact else "at least "
    return f"{kept}{change}: {least}{plural(lost.span, 'offset')}, {lost.start} to {lost.end - 1}"


_COLUMNS = ("Topic", "Part.", "Replicas", "In sync", "Eligible", "Leader", "To", "What")
_RESULT_COLUMNS = ("Topic", "Part.", "Leader before", "Leader now", "What")


def _cells(line: Line) -> tuple[str, ...]:
    seen = line.partition
    prechecks = " ".join(f"({each.precheck})" for each in line.refused)
    return (
        plain(line.place.topic),
        str(line.place.partition),
        _nodes(seen.replicas if seen else ()),
        _nodes(seen.in_sync if seen else ()),
        "?" if seen is None or seen.eligible is None else _nodes(seen.eligible),
        _node(seen.leader if seen else None),
        _node(line.to),
        f"{_PLANNED[line.action]} {prechecks}".strip(),
    )


def _losses(lines: Sequence[Line]) -> Iterator[Text]:
    losses = [(line.place, line.loss) for line in lines if line.loss]
    if losses:
        yield heading("Expected loss")
    for place, loss in losses:
        yield Text(f"  {plain(str(place))}: {sentence(loss.message)}")
        for each in loss.evidence[1:]:
            yield Text(f"    {sentence(each.message)}", "dim")
        if loss.elsewhere:
            yield Text(f"    {plural(loss.elsewhere, 'offset')} of them are on another cluster")
        for row in loss.beyond:
            words = f"group {plain(row.group)} committed offset {row.offset}, beyond the kept log"
            yield Text(f"    {words}", "yellow")


def _blockers(title: str, found: Sequence[tuple[object, Blocker]]) -> Iterator[Text]:
    yield from section(
        title,
        (
            f"{plain(str(place))}: {each.precheck}: {sentence(each.reason)}"
            for place, each in found[:MOST]
        ),
    )
    yield from more(len(found) - MOST)


def _headline(plan: ElectionPlan) -> str:
    return f"{plan.kind.value.capitalize()} election on cluster {plain(plan.cluster)}"


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes)) or "none"


def _node(node: int | None) -> str:
    return "none" if node is None else str(node)
