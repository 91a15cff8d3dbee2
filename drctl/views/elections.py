"""Looks, plans and results of elections for a person."""

from collections.abc import Iterable, Iterator, Sequence

from drctl.elections.cluster_state import Partition, PartitionStates, Replica
from drctl.elections.planning import ElectionPlan, Line, Objection
from drctl.elections.results import ElectionResult, LineResult
from drctl.model.topology import Unavailable
from drctl.views.text import number, plain, plural, sentence
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
    """Partitions without leaders, replica by replica."""
    leaderless = states.dark
    partitions = plural(len(states.partitions), "partition")
    told = f"{partitions}, all are led"
    if leaderless:
        told = f"{len(leaderless)} of {partitions} without a leader"
    yield Text(f"Cluster {plain(cluster)}: {told}", "bold")
    yield Text(f"brokers that answer: {_nodes(sorted(states.alive))}", "dim")
    for node, why in sorted(states.silent.items()):
        yield Text(f"broker {node}: {sentence(why.reason)}", "yellow")
    if isinstance(states.controller, Unavailable):
        reason = sentence(states.controller.reason)
        yield Text(f"no controller: {reason}; nobody is elected without one", "yellow")
    for name in states.absent:
        yield Text(f"there is no topic {plain(name)}", "yellow")
    if leaderless:
        rows = (row for each in leaderless[:MOST] for row in _replicas(each, states))
        yield table(rows, "Topic", "Part.", "Broker", "There", "What it holds", "Log end")
        yield from more(len(leaderless) - MOST)


def _replicas(each: Partition, states: PartitionStates) -> Iterator[tuple[str, ...]]:
    for node in each.replicas:
        end = states.log_ends.get(Replica(each.place, node))
        yield (
            plain(each.place.topic),
            str(each.place.partition),
            str(node),
            "yes" if node in states.alive else "no",
            _standing(each, node),
            number(end) if isinstance(end, int) else "?",
        )


def _standing(each: Partition, node: int) -> str:
    if node in each.in_sync:
        return "all: in sync"
    if node in (each.eligible or ()):
        return "all: eligible"
    if node in (each.last_known or ()):
        return "was the last eligible one"
    return "behind" if each.eligible is not None else "behind (eligible ones are not visible)"


@view
def plan_table(plan: ElectionPlan, execute: str) -> Iterator[Part]:
    """What would be done; the command line that does it stands last, by the prompt."""
    yield Text(f"{_headline(plan)}: {counted(line.action for line in plan.lines)}", "bold")
    yield from notes(plan.notes, plan.overrides.items())
    yield from listing([*plan.refused, *plan.elected], _cells, *_COLUMNS)
    yield from _losses(plan.lines)
    yield from _objections("Against it", [(e.place, o) for e in plan.refused for o in e.refused])
    yield from _objections("Passed over", [(e.place, o) for e in plan.lines for o in e.overridden])
    if plan.elected:
        yield from section("Nobody was elected. To do it:", [plain(execute)])
    elif plan.refused:
        yield heading("Nobody is elected while this stands against it.")
        passed = {each.precheck for line in plan.refused for each in line.refused}
        if all(precheck.overridable for precheck in passed):
            words = " ".join(f"--override {precheck}=REASON" for precheck in sorted(passed))
            yield Text(f"To pass over it: {words}")
    else:
        yield heading("There is nobody to elect.")


@view
def result_table(result: ElectionResult) -> Iterator[Part]:
    """What was done, and what was lost as measured."""
    plan = result.plan
    outcomes = counted(each.outcome for each in result.results)
    yield Text(f"{_headline(plan)}: {outcomes}", "bold")
    if result.run:
        yield Text(f"in {result.seconds:.1f} s, journal {plain(result.journal)}", "dim")
    yield from notes(plan.notes, plan.overrides.items())
    yield from listing(result.results, _result_cells, *_RESULT_COLUMNS)
    yield from _measured([each for each in result.results if each.cut is not None])
    refused = [(each.line.place, o) for each in result.results for o in each.objections]
    yield from _objections("Against it", refused)
    for each in result.results:
        if reason := each.became.reason:
            yield Text(f"  {plain(str(each.line.place))}: {sentence(reason)}")
    if result.resume:
        yield from section("It has not ended. To look what came of it, and go on:", [result.resume])


def _result_cells(each: LineResult) -> tuple[str, ...]:
    seen, place = each.line.partition, each.line.place
    leaders = _node(seen.leader if seen else None), _node(each.became.leader)
    return plain(place.topic), str(place.partition), *leaders, each.outcome.value


def _measured(results: Sequence[LineResult]) -> Iterator[Text]:
    if results:
        yield heading("Lost, as measured")
    for each in results:
        yield Text(f"  {plain(str(each.line.place))}: {measured(each)}")
        if each.line.loss and each.line.loss.beyond:
            groups = ", ".join(plain(row.group) for row in each.line.loss.beyond)
            yield Text(f"    groups that stand behind its end: {groups}", "yellow")
    if results:
        yield Text("  the other replicas cut their logs to it when they return", "dim")


def measured(each: LineResult) -> str:
    """What was lost of one partition, by the new leader's own log."""
    if isinstance(each.cut, Unavailable):
        return f"cannot be told: {sentence(each.cut.reason)}"
    kept = f"the log that was kept ended at {each.cut}"
    told = "" if each.as_stated else ", which is not what was said before"
    lost = each.lost
    if lost is None:
        return f"{kept}{told}; how much lay behind it, nobody saw"
    if not lost.span:
        return f"{kept}{told}; nobody saw any record behind it"
    least = "" if each.line.loss and each.line.loss.exact else "at least "
    return f"{kept}{told}: {least}{lost.span:,} offsets, {lost.start} to {lost.end - 1}"


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
        f"{line.action.value} {prechecks}".strip(),
    )


def _losses(lines: Sequence[Line]) -> Iterator[Text]:
    told = [(line.place, line.loss) for line in lines if line.loss]
    if told:
        yield heading("Would be lost")
    for place, loss in told:
        yield Text(f"  {plain(str(place))}: {sentence(loss.words)}")
        for each in loss.evidence[1:]:
            yield Text(f"    {sentence(each.words)}", "dim")
        if loss.elsewhere:
            yield Text(f"    {plural(loss.elsewhere, 'offset')} of them are on another cluster")
        for row in loss.beyond:
            words = f"group {plain(row.group)} stands at {row.offset}, behind the end that stays"
            yield Text(f"    {words}", "yellow")


def _objections(title: str, found: Sequence[tuple[object, Objection]]) -> Iterator[Text]:
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
