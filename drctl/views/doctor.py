"""The output of `doctor`, and the changes that `--fix` would make."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from drctl.checks.causes import Unseen, group_by_cause, network_suspected, one_per_reason
from drctl.checks.check import Family
from drctl.checks.diagnosis import Diagnosis, Row
from drctl.checks.repairs import PRECHECK
from drctl.model.finding import Finding, Status
from drctl.model.health import CHECK_NETWORK
from drctl.model.plan import Plan
from drctl.model.text import plural, quote
from drctl.steps.repair_changes import Change, changes_of
from drctl.views.findings import finding_lines
from drctl.views.text import plain, sentence
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
    """Show the verdict, blockers and failures first, then all checks by family.

    The verdict is repeated below the checks, which are longer than a screen.
    """
    if network := network_suspected(row.finding for row in found.rows):
        yield Text(sentence(network), "bold red")
        yield Text(f"Fix: {CHECK_NETWORK}", "dim")
    yield _readiness(found)
    ends = f"link {found.link}: {found.source} -> {found.target}"
    counts = ", ".join(f"{count} {status.value}" for status, count in found.counts.items())
    yield Text(f"{sentence(ends)}; {counts}", "dim")
    _, unseen = group_by_cause([row.finding for row in found.rows])
    bad = [row for row in found.rows if row.refuses or row.finding.status is Status.FAIL]
    if bad:
        yield heading("Blockers and failures")
        yield from _findings(bad, unseen)
    others = [row for row in found.rows if row not in bad and row.finding.status is not Status.OK]
    if others:
        yield heading("Warnings")
        by_urgency = sorted(others, key=lambda row: _URGENT[row.finding.status])
        yield from _findings(by_urgency, unseen)
    if unseen:
        yield heading("Could not be checked")
        yield from map(_unseen, unseen)
    yield heading("All checks")
    yield table(_all_rows(found.rows, unseen))
    yield Text("")
    yield _readiness(found)
    if bad:
        names = dict.fromkeys(row.finding.check for row in bad)
        yield Text(f"Blockers and failures, see above: {', '.join(names)}")
        yield from _next(found)


def _readiness(found: Diagnosis) -> Text:
    if found.silent:
        silent = " and ".join(map(sentence, found.silent))
        return Text(f"Unknown: {silent} did not answer", "bold red")
    if not found.ready:
        return Text("Not ready: a failover would be blocked or would fail", "bold red")
    style = "bold yellow" if found.counts[Status.WARN] else "bold green"
    return Text("Ready: no blockers", style)


def _next(found: Diagnosis) -> Iterator[Text]:
    doctor = f"drctl doctor --link {quote(found.link)}"
    if any("drctl doctor --fix" in row.finding.remedy for row in found.rows):
        yield Text("Next: show what drctl can change, fix the rest by hand, and check again")
        yield Text(f"  {doctor} --fix")
    else:
        yield Text("Next: fix them, and check again")
    yield Text(f"  {doctor}")


def _findings(rows: Sequence[Row], unseen: Sequence[Unseen]) -> Iterator[Text]:
    """Yield findings that do more than repeat a shared cause."""
    folded = [each for group in unseen for each in group.findings]
    for finding in one_per_reason(row.finding for row in rows if row.finding not in folded):
        yield from finding_lines(finding, _STYLES[finding.status], "evidence", "impact", "remedy")


def _unseen(unseen: Unseen) -> Text:
    """Summarize the checks that could not run for one cause."""
    why = f", see {unseen.reported_by}" if unseen.reported_by else f": {unseen.cause.why}"
    words = sentence(f"{unseen.count} could not run{why} ({', '.join(unseen.checks)})")
    return Text(words, "yellow", "  not-checked ")


def _all_rows(rows: Sequence[Row], unseen: Sequence[Unseen]) -> Iterator[tuple[str | Text, ...]]:
    shared = {each.cause for each in unseen}
    families = list(Family)
    by_family = sorted(rows, key=lambda row: families.index(row.family))
    for family, group in groupby(by_family, key=lambda row: row.family):
        yield Text(family.value, "bold"), "", ""
        for row in group:
            finding = row.finding
            reason = finding.apart if finding.cause in shared else finding.reason
            text = sentence(f"{finding.subject}: {reason}")
            if finding.status is Status.OK and finding.evidence:
                text += f" ({sentence(finding.evidence)})"
            status = Text(finding.status.value, _STYLES[finding.status])
            yield f"  {finding.check}", status, text


@view
def fix_table(
    plan: Plan, findings: Sequence[Finding], against: Sequence[str], execute: str
) -> Iterator[Part]:
    """Show the verdict, every change, what to fix by hand, and the next command."""
    changes = changes_of(plan.steps)
    left = [each for each in findings if each.status is Status.WARN]
    yield _verdict(plan, changes, left, against)
    if changes:
        yield heading(f"Changes on {plain(plan.target)}")
        yield table(map(_change, changes), "  What", "Now", "After", "Impact in a failover")
    unseen = [each for each in findings if each.status is Status.NOT_CHECKED]
    for title, rows in (("To fix by hand", left), ("Outside this link, or not compared", unseen)):
        if rows:
            yield heading(title)
            for each in rows:
                yield from _by_hand(each)
    failing = [each for each in findings if each.status is Status.FAIL]
    yield from section("Next", _what_to_do(changes, left, against, failing, execute))


def _verdict(
    plan: Plan, changes: Sequence[Change], left: Sequence[Finding], against: Sequence[str]
) -> Text:
    ends = f"link {plain(plan.link)}, {plain(plan.source)} -> {plain(plan.target)}"
    counts = f"{plural(len(changes), 'change')}, {len(left)} to fix by hand"
    if against:
        return Text(f"Refused: {ends}; {plural(len(against), 'blocker')} below", "bold red")
    if not changes and not left:
        return Text(f"No differences: {ends}", "bold green")
    return Text(f"{'Ready' if changes else 'Nothing to change'}: {ends}; {counts}", "bold yellow")


def _change(change: Change) -> tuple[str, ...]:
    what, before, after, why = map(sentence, (change.what, change.before, change.after, change.why))
    note = f". Note: {sentence(change.note)}" if change.note else ""
    return f"  {what}", before, after, f"{why}{note}"


def _by_hand(finding: Finding) -> Iterator[Text]:
    yield Text(f"  {sentence(finding.subject)}")
    for name in ("reason", "impact", "remedy"):
        if text := getattr(finding, name):
            label = {"reason": "Reason", "impact": "Impact", "remedy": "Fix"}[name]
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
        yield from (f"Fix: {sentence(each.remedy)}" for each in failing if each.remedy)
        if any(each.check == PRECHECK for each in failing):
            yield f"If that is wrong: --override {PRECHECK}=REASON"
    elif changes:
        yield f"Nothing has been changed. To apply the changes: {plain(execute)}"
    elif left:
        yield "Nothing for drctl to change: run the commands above by hand."
    else:
        yield "Nothing."
