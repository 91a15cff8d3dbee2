"""What `doctor` found, and what `--fix` would change; nothing is rich markup."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from drctl.checks.causes import Unseen, network_suspected, told_once
from drctl.checks.check import Family
from drctl.checks.diagnosis import Diagnosis, Row
from drctl.checks.repairs import PRECHECK
from drctl.model.finding import Finding, Status
from drctl.model.plan import Plan
from drctl.steps.repairs import Change, changes_of
from drctl.views.findings import finding_lines
from drctl.views.text import plain, plural, sentence
from drctl.views.view import Part, Text, heading, section, table, view

_STYLES = {
    Status.OK: "green",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.NOT_CHECKED: "yellow",
}
_URGENT = {Status.FAIL: 0, Status.NOT_CHECKED: 1, Status.WARN: 2, Status.OK: 3}


@view
def doctor_table(found: Diagnosis) -> Iterator[Part]:
    """The verdict, what stands in the way first, then every row by family."""
    if network := network_suspected(row.finding for row in found.rows):
        yield Text(sentence(network), "bold red")
    yield _readiness(found)
    ends = f"link {found.link}: {found.source} -> {found.target}"
    counts = ", ".join(f"{count} {status.value}" for status, count in found.counts.items())
    yield Text(f"{sentence(ends)}; {counts}", "dim")
    _, unseen = told_once([row.finding for row in found.rows])
    bad = [row for row in found.rows if row.refuses or row.finding.status is Status.FAIL]
    if bad:
        yield heading("In the way of a failover")
        yield from _findings(bad, unseen)
    others = [row for row in found.rows if row not in bad and row.finding.status is not Status.OK]
    if others:
        yield heading("To know of")
        by_urgency = sorted(others, key=lambda row: _URGENT[row.finding.status])
        yield from _findings(by_urgency, unseen)
    if unseen:
        yield heading("Not looked at")
        yield from map(_unseen, unseen)
    yield heading("All rows")
    yield table(_all_rows(found.rows, unseen))


def _readiness(found: Diagnosis) -> Text:
    if found.silent:
        silent = " and ".join(map(sentence, found.silent))
        return Text(f"Unknown: {silent} did not answer", "bold red")
    if not found.ready:
        return Text("Not ready: a failover would be refused, or go wrong", "bold red")
    style = "bold yellow" if found.counts[Status.WARN] else "bold green"
    return Text("Ready: nothing stands in the way of a failover", style)


def _findings(rows: Sequence[Row], unseen: Sequence[Unseen]) -> Iterator[Text]:
    """What has something of its own to say."""
    folded = [each for group in unseen for each in group.findings]
    for finding in (row.finding for row in rows if row.finding not in folded):
        yield from finding_lines(finding, _STYLES[finding.status], "evidence", "cost", "remedy")


def _unseen(unseen: Unseen) -> Text:
    """One line for each cause that keeps checks from looking, wherever they belong."""
    why = f", see {unseen.said_by}" if unseen.said_by else f": {unseen.because.why}"
    told = sentence(f"{unseen.count} could not look{why} ({', '.join(unseen.checks)})")
    return Text(f"  not-checked {told}", "yellow")


def _all_rows(rows: Sequence[Row], unseen: Sequence[Unseen]) -> Iterator[tuple[str | Text, ...]]:
    shared = {each.because for each in unseen}
    families = list(Family)
    by_family = sorted(rows, key=lambda row: families.index(row.family))
    for family, group in groupby(by_family, key=lambda row: row.family):
        yield Text(family.value, "bold"), "", ""
        for row in group:
            finding = row.finding
            reason = finding.apart if finding.because in shared else finding.reason
            said = sentence(f"{finding.subject}: {reason}")
            if finding.status is Status.OK and finding.evidence:
                said += f" ({sentence(finding.evidence)})"
            status = Text(finding.status.value, _STYLES[finding.status])
            yield f"  {finding.check}", status, said


@view
def fix_table(
    plan: Plan, findings: Sequence[Finding], against: Sequence[str], execute: str
) -> Iterator[Part]:
    """The verdict, every change, what is left and why, and what to type."""
    changes = changes_of(plan.steps)
    left = [each for each in findings if each.status is Status.WARN]
    yield _verdict(plan, changes, left, against)
    if changes:
        yield heading(f"Would be changed on {plain(plan.target)}")
        yield table(map(_change, changes), "  What", "Now", "Then", "Why it matters in a failover")
    unseen = [each for each in findings if each.status is Status.NOT_CHECKED]
    for title, rows in (("Left to a person", left), ("Beyond this link, or not compared", unseen)):
        if rows:
            yield heading(title)
            for each in rows:
                yield from _by_hand(each)
    failing = [each for each in findings if each.status is Status.FAIL]
    yield from section("Do now", _what_to_do(changes, left, against, failing, execute))


def _verdict(
    plan: Plan, changes: Sequence[Change], left: Sequence[Finding], against: Sequence[str]
) -> Text:
    ends = f"link {plain(plan.link)}, {plain(plan.source)} -> {plain(plan.target)}"
    counts = f"{plural(len(changes), 'change')}, {len(left)} left to a person"
    if against:
        return Text(f"Refused: {ends}; {plural(len(against), 'objection')} below", "bold red")
    if not changes and not left:
        return Text(f"Nothing differs that is looked at: {ends}", "bold green")
    return Text(f"{'Ready' if changes else 'Nothing to change'}: {ends}; {counts}", "bold yellow")


def _change(change: Change) -> tuple[str, ...]:
    told = (change.what, change.before, change.after, change.why)
    what, before, after, why = map(sentence, told)
    note = f". Note: {sentence(change.note)}" if change.note else ""
    return f"  {what}", before, after, f"{why}{note}"


def _by_hand(finding: Finding) -> Iterator[Text]:
    yield Text(f"  {sentence(finding.subject)}")
    for name in ("reason", "cost", "remedy"):
        if text := getattr(finding, name):
            label = {"reason": "why", "cost": "cost", "remedy": "by hand"}[name]
            yield Text(f"      {label}: {sentence(text)}", "dim")


def _what_to_do(
    changes: Sequence[Change],
    left: Sequence[Finding],
    against: Sequence[str],
    failing: Sequence[Finding],
    execute: str,
) -> Iterator[str]:
    if against:
        yield from (f"{sentence(each)}." for each in against)
        yield from (f"Cure: {sentence(each.remedy)}." for each in failing if each.remedy)
        if any(each.check == PRECHECK for each in failing):
            yield f"Or, where that is wrong: --override {PRECHECK}=REASON"
    elif changes:
        yield f"Nothing has been changed. To carry it out: {plain(execute)}"
    elif left:
        yield "Nothing here is for drctl to change: see above for what a person would type."
    else:
        yield "Nothing."
