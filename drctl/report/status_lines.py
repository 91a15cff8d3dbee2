"""What `status` saw, in a line each: for a log, and as parts of the screen."""

from collections import Counter
from collections.abc import Iterator, Sequence

from drctl.checks.go import Answer, StatusNow
from drctl.checks.rpo import Rpo
from drctl.checks.wording import listed, utc
from drctl.model.connectors import Connector
from drctl.model.finding import Finding, Status
from drctl.model.topology import Unavailable
from drctl.report.printable import sentence


def status_line(seen: StatusNow) -> str:
    """All of it in one line."""
    parts = (
        utc(seen.at_ms),
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
    return f"NO-GO ({listed(tuple(dict.fromkeys(f.check for f in answer.blockers)))})"


def silences(seen: StatusNow) -> tuple[str, ...]:
    """Why each cluster that did not answer did not."""
    ends = (seen.source_id, seen.target_id)
    return tuple(each.reason for each in ends if isinstance(each, Unavailable))


def rpo_words(rpo: Rpo) -> str:
    """What would be lost."""
    if rpo.records is None and rpo.seconds is None:
        return "RPO not known"
    records = "an unknown number of" if rpo.records is None else f"about {rpo.records:,}"
    at_most = f" (at most {rpo.at_most:,})" if rpo.at_most not in (None, rpo.records) else ""
    if rpo.records == 0 and not rpo.at_most:
        return "RPO 0 records"
    since = "" if rpo.seconds is None else f" of the last {rpo.seconds:,.1f} s"
    return f"RPO {records} records{at_most}{since}"


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


def folded(findings: Sequence[Finding], silent: Sequence[str]) -> tuple[list[Finding], list[str]]:
    """Findings that say something, and lines about those that a silent cluster keeps from it.

    Args:
        silent: why each cluster that did not answer did not.
    """
    told: list[Finding] = []
    unseen: dict[str, list[str]] = {}
    for each in findings:
        why = next((text for text in silent if text and text in each.reason), None)
        if each.status is Status.NOT_CHECKED and why is not None:
            unseen.setdefault(why, []).append(each.check)
        else:
            told.append(each)
    lines = [f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in unseen.items()]
    return told, lines
