"""What `status` saw, in a line each: for a log, and as parts of the screen."""

from collections import Counter
from collections.abc import Iterator

from drctl.checks.causes import network_suspected, told_once
from drctl.checks.go import Answer, StatusNow
from drctl.checks.rpo import Rpo
from drctl.checks.wording import listed
from drctl.model.connectors import Connector
from drctl.model.moments import utc
from drctl.report.printable import sentence


def status_line(seen: StatusNow) -> str:
    """All of it in one line."""
    parts = (
        utc(seen.at_ms),
        *filter(None, [network_suspected(seen.planned.blockers)]),
        f"planned {word(seen.planned)}",
        f"unplanned {word(seen.unplanned)}",
        rpo_words(seen.rpo),
        *(f"{name} does not answer" for name in seen.silent),
        *([groups_words(seen)] if seen.groups.left_out else []),
    )
    return sentence("; ".join(parts))


def word(answer: Answer) -> str:
    """Go or no-go."""
    if answer.go:
        return "GO"
    told, unseen = told_once(answer.blockers)
    names = tuple(dict.fromkeys(f.check for f in told))
    beside = tuple(f"{each.count} that could not look" for each in unseen)
    return f"NO-GO ({'; '.join(filter(None, (listed(names), *beside)))})"


def rpo_words(rpo: Rpo) -> str:
    """What would be lost."""
    if not rpo.lost.known and rpo.seconds is None:
        return "RPO not known"
    if rpo.records == 0 and not rpo.at_most:
        return "RPO 0 records"
    since = "" if rpo.seconds is None else f" of the last {rpo.seconds:,.1f} s"
    return f"RPO {rpo.lost.words}{since}"


def groups_words(seen: StatusNow) -> str:
    """How many groups could go on."""
    groups = seen.groups
    if groups.unknown and not groups.groups:
        return f"groups: not known: {groups.unknown}"
    total = f"{groups.groups:,} groups with {groups.positions:,} positions"
    beside = f"; {groups.unknown}" if groups.unknown else ""
    if not groups.left_out:
        return f"{total}: all could go on{beside}"
    names = groups.groups_left_out
    return (
        f"{total}: {len(groups.left_out):,} positions of {len(names):,} groups have no place on"
        f" {seen.target} if {seen.source} is lost now: {listed(names)}{beside}"
    )


def connector_words(connectors: Iterator[Connector]) -> Iterator[str]:
    """Each connector and its tasks."""
    for each in connectors:
        tasks = Counter(task.state for task in each.tasks)
        told = ", ".join(f"{count} {state}" for state, count in sorted(tasks.items()))
        yield f"{each.name} {each.state or '?'}" + (f", tasks: {told}" if told else ", no task")
