"""A plan as text and JSON; the same plan and findings always give the same JSON.

`loss` and `groups` change over time, so they are omitted from documents that are compared.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from drctl.checks.causes import (
    CAUSES,
    Unseen,
    group_by_cause,
    network_suspected,
    without_consequences,
)
from drctl.checks.diagnosis import blockers_among, overridable
from drctl.checks.repairs import PRECHECK
from drctl.connectors.moving import MovedConnector, MovedConnectorDocument
from drctl.engine.kind import Kind, Trait
from drctl.model.document import Count, Document, From, Name, Seconds, rounded
from drctl.model.finding import Finding, Status
from drctl.model.loss import Loss, LossDocument, Mode, loss_document
from drctl.model.plan import Duty, Json, Plan, Step
from drctl.model.text import plural
from drctl.steps.commit_offsets import Foreseen, Reread
from drctl.steps.failback import OVERRIDABLE
from drctl.steps.prechecks import modes_of
from drctl.steps.registry import KINDS
from drctl.views.client_moves import LeavingRow, leaving_lines, leaving_rows
from drctl.views.findings import CauseDocument, FindingDocument, without_shared_causes
from drctl.views.run_json import OverrideDocument, override_documents
from drctl.views.run_reading import described
from drctl.views.text import COMMANDS, duration, number, plain, sentence
from drctl.views.view import Part, Table, Text, heading, section, view

_OVERRIDABLE = frozenset(overridable((*OVERRIDABLE, PRECHECK)))
"""Prechecks that can be overridden."""

_MOST_NAMED = 5

_WORST_FIRST = (Status.FAIL, Status.NOT_CHECKED, Status.WARN, Status.OK)
_DUTIES = {
    Duty.REQUIRED: "",
    Duty.BEST_EFFORT: "if it fails, it becomes an outstanding action and the run continues",
    Duty.OPTIONAL: "if it fails, the run continues without it",
}


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A step of the plan.

    Attributes:
        rollback: empty if the step changes nothing.
        unless: what happens if it fails; empty if the run ends.
        enables_writes: whether it enables writes: after it there is no automatic rollback.
    """

    number: int
    id: str
    title: str
    proof: str
    rollback: str
    unless: str
    enables_writes: bool


@dataclass(frozen=True, slots=True)
class PrecheckRow:
    """The result of a precheck.

    Attributes:
        overridden: the reason for the override; empty if there is none.
        blocks: whether it blocks the plan.
    """

    status: Status
    check: str
    subject: str
    reason: str
    impact: str
    remedy: str
    overridden: str
    blocks: bool


def step_rows(plan: Plan, kinds: Mapping[str, Kind] = KINDS) -> tuple[PlanRow, ...]:
    """Return every step, in order."""
    rows = []
    for place, step in enumerate(plan.steps, 1):
        words = described(step, kinds)
        traits = kinds[step.kind].traits if step.kind in kinds else Trait.NONE
        rows.append(
            PlanRow(
                place,
                plain(step.id),
                sentence(words.title),
                sentence(words.proof),
                sentence(words.rollback) if Trait.CHANGES in traits else "",
                _DUTIES[step.duty],
                Trait.ENABLES_WRITES in traits,
            )
        )
    return tuple(rows)


def worst_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Sort in a fixed order: the worst first, causes before their consequences."""

    def place(f: Finding) -> tuple[int, int, str, str, str]:
        cause = list(CAUSES).index(f.check) if f.check in CAUSES else len(CAUSES)
        return _WORST_FIRST.index(f.status), cause, f.check, f.subject, f.reason

    return tuple(sorted(findings, key=place))


def blockers(plan: Plan, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that block the plan, the worst first."""
    return worst_first(blockers_among(findings, plan.overrides, mode_of(plan)))


class Blocker(NamedTuple):
    """A reason why the plan is refused.

    Attributes:
        precheck: the first one that reports it.
    """

    precheck: str
    message: str
    remedy: str


def blockers_by_cause(plan: Plan, findings: Sequence[Finding]) -> tuple[Blocker, ...]:
    """Return the blockers, each cause once, with the number of checks that it prevented."""
    failed, unseen = group_by_cause(blockers(plan, findings))
    found = []
    for each in failed:
        caused = [u for u in unseen if u.reported_by == each.check]
        also = "".join(f"; {u.count} could not run ({', '.join(u.checks)})" for u in caused)
        found.append(Blocker(each.check, f"{each.subject}: {each.reason}{also}", each.remedy))
    reporting = {each.check for each in failed}
    others = (u for u in unseen if u.reported_by not in reporting)
    return (*found, *(Blocker(u.checks[0], u.message, u.remedy) for u in others))


def mode_of(plan: Plan) -> Mode:
    """Return the mode of a plan's prechecks; planned, the stricter one, if it has none."""
    return Mode.UNPLANNED if Mode.UNPLANNED in modes_of(plan.steps) else Mode.PLANNED


def precheck_rows(
    findings: Sequence[Finding], overrides: Mapping[str, str], mode: Mode = Mode.PLANNED
) -> tuple[PrecheckRow, ...]:
    """Return prechecks that are not ok, the worst first; one row for each shared cause."""
    against = blockers_among(findings, overrides, mode)
    own, unseen = group_by_cause([e for e in worst_first(findings) if e.status is not Status.OK])
    rows = [
        PrecheckRow(
            each.status,
            plain(each.check),
            sentence(each.subject),
            sentence(each.reason),
            sentence(each.impact),
            sentence(each.remedy),
            "" if each in against else sentence(overrides.get(each.check, "")),
            each in against,
        )
        for each in own
    ]
    failing = sum(row.status is Status.FAIL for row in rows)
    return (*rows[:failing], *(_unseen_row(u, against) for u in unseen), *rows[failing:])


def _unseen_row(unseen: Unseen, against: Sequence[Finding]) -> PrecheckRow:
    return PrecheckRow(
        Status.NOT_CHECKED,
        f"{unseen.count} could not run",
        sentence(unseen.cause.why),
        plain(", ".join(unseen.checks)),
        "",
        sentence(unseen.remedy),
        "",
        any(each in against for each in unseen.findings),
    )


def prechecks_in_words(
    findings: Sequence[Finding], overrides: Mapping[str, str], mode: Mode = Mode.PLANNED
) -> str:
    """Count prechecks by status, as `precheck_rows` lists them.

    For example `2 fail (1 overridden), 1 not checked, 3 warn, 40 ok`.
    """
    against = blockers_among(findings, overrides, mode)
    own, not_run = group_by_cause([each for each in findings if each.status is not Status.OK])
    counts = Counter(each.status for each in own)
    counts[Status.NOT_CHECKED] += sum(len(each.checks) for each in not_run)
    counts[Status.OK] = sum(each.status is Status.OK for each in findings)
    passed = Counter(f.status for f in own if f.check in overrides and f not in against)
    for each in not_run:
        names = {f.check for f in each.findings if f.check in overrides and f not in against}
        passed[Status.NOT_CHECKED] += len(names)
    words = []
    for status in _WORST_FIRST:
        if count := counts[status]:
            overridden = f" ({number(passed[status])} overridden)" if passed[status] else ""
            words.append(f"{number(count)} {status.value.replace('-', ' ')}{overridden}")
    return ", ".join(words) or "none"


def verdict(
    plan: Plan,
    findings: Sequence[Finding],
    violations: Sequence[str],
    groups: Foreseen | None = None,
) -> str:
    """Return the headline: whether the plan can be executed, and groups without an offset."""
    against = len(blockers_by_cause(plan, findings)) + len(violations)
    what = (
        f"{plain(plan.name)} of link {plain(plan.link)}, {plain(plan.source)} to "
        f"{plain(plan.target)}, {plural(len(plan.steps), 'step')}"
    )
    if against:
        return f"Blocked: {what}; {plural(against, 'blocker')} below."
    if groups is not None and groups.without_offset:
        return f"Ready: {what}; {without_offset(groups.without_offset, plan.target)}."
    return f"Ready: {what}."


def without_offset(names: Sequence[str], target: str) -> str:
    """Describe groups without a committed offset on the target."""
    listed = ", ".join(map(plain, names[:_MOST_NAMED]))
    more = f" and {number(len(names) - _MOST_NAMED)} more" if len(names) > _MOST_NAMED else ""
    return (
        f"{plural(len(names), 'group')} would have no committed offset on {plain(target)}:"
        f" {listed}{more} (auto.offset.reset applies; Kafka's default is latest, which skips"
        " everything before)"
    )


def group_lines(groups: Foreseen) -> tuple[str, ...]:
    """Return a summary of the groups' offsets, then the evidence of each group."""
    again = "the number of records read again is unknown"
    if groups.rereads_at_most is not None:
        again = f"at most {plural(groups.rereads_at_most, 'record')} read again"
    if groups.rereads_likely is not None:
        again += f", likely {number(groups.rereads_likely)}"
    lines = [
        f"{plural(groups.positions, 'offset')} of {plural(groups.groups, 'group')} to be committed;"
        f" {again}"
    ]
    for name, each in list(groups.rows.items())[:_MOST_NAMED]:
        evidence, age, only_if = each.based_on
        seen = "" if age is None else f", {duration(age)} old"
        if only_if:
            lines.append(f"{name}: {evidence}{seen}; skips records only if {only_if}")
    if len(groups.rows) > _MOST_NAMED:
        lines.append(f"and {plural(len(groups.rows) - _MOST_NAMED, 'more group')}")
    lines += [f"left out: {each}" for each in groups.left_out[:_MOST_NAMED]]
    return tuple(map(sentence, lines))


def moved_lines(connectors: Sequence[MovedConnector]) -> Iterator[str]:
    """Say what each source connector does, and what it would do without its position."""
    for each in connectors:
        yield each.words
        if each.if_purged:
            yield f"{each.connector}, if its position is lost: {each.if_purged}"


def loss_lines(loss: Loss) -> tuple[str, ...]:
    """Return the likely loss, then the evidence for it."""
    return tuple(map(sentence, (loss.message, *loss.evidence)))


def next_actions(
    plan: Plan, findings: Sequence[Finding], violations: Sequence[str], execute: str
) -> tuple[str, ...]:
    """Return what to do now; `execute` is the command line that executes the plan."""
    now = without_consequences(findings, plan.overrides)
    against = blockers(plan, now)
    actions = [f"The plan breaks an ordering rule: {sentence(each)}." for each in violations]
    actions += list(dict.fromkeys(_as_line(sentence(f.remedy)) for f in against if f.remedy))
    overridable_checks = dict.fromkeys(plain(f.check) for f in against if f.check in _OVERRIDABLE)
    if overridable_checks:
        actions.append(
            "Or override, each with a reason: --override PRECHECK=REASON"
            f" ({', '.join(overridable_checks)})"
        )
    if not actions:
        actions += ["Nothing was changed. To execute this plan:", plain(execute)]
    return tuple(actions)


def _as_line(remedy: str) -> str:
    """Make a remedy a sentence; no period is added after a command line."""
    if remedy.startswith(COMMANDS):
        return remedy
    last = remedy.rpartition(": ")[2]
    return f"{remedy[:1].upper()}{remedy[1:]}{'' if last.startswith(COMMANDS) else '.'}"


class PlanStepDocument(Document):
    """A step of the plan.

    Attributes:
        rollback: empty if there is none.
        settings: settings of its kind.
    """

    id: Name
    kind: Name
    title: Name
    proof: str
    rollback: str
    settings: Json
    duty: Duty
    timeout_seconds: Seconds


def _step(step: Step, kinds: Mapping[str, Kind]) -> PlanStepDocument:
    words = described(step, kinds)
    return PlanStepDocument.of(
        step,
        title=words.title,
        proof=words.proof,
        rollback=words.rollback,
        timeout_seconds=step.timeout_s,
    )


class ForeseenGroup(Document):
    """Where a group would resume.

    Attributes:
        rereads_at_most: records that are read again; null if no bound is known.
        rereads_likely: with the source lost: records that are read again if the group consumed
            nothing since the evidence; null if unknown, or if the source answered.
        based_on: the oldest evidence of its offsets.
        age_seconds: age of that evidence; null if unknown.
        skips_only_if: the condition under which records are skipped; null if the source answered.
    """

    read = From(Reread)
    group: str
    rereads_at_most: Count | None = read(lambda r: r.at_most)
    rereads_likely: Count | None = read(lambda r: r.likely)
    based_on: str = read(lambda r: r.based_on[0])
    age_seconds: Seconds | None = read(lambda r: rounded(r.based_on[1], 1))
    skips_only_if: Name | None = read(lambda r: r.based_on[2] or None)


class ForeseenGroups(Document):
    """Where groups would resume.

    Attributes:
        rereads_at_most: records that are read again; null if no bound is known.
        rereads_likely: with the source lost: records that are read again if the groups consumed
            nothing since the evidence; null if unknown, or if the source answered.
        without_offset: groups that would have no committed offset on the target, and group patterns
            that match no known group.
        left_out: offsets that would not be committed, and why.
    """

    read = From(Foreseen)
    offsets: Count = read(lambda f: f.positions)
    rereads_at_most: Count | None
    rereads_likely: Count | None
    without_offset: tuple[Name, ...]
    left_out: tuple[Name, ...]
    groups: tuple[ForeseenGroup, ...] = read(
        lambda f: tuple(ForeseenGroup.of(row, group=name) for name, row in f.rows.items())
    )


class RefusedDocument(Document):
    """Why a plan is refused.

    Attributes:
        precheck: null if the plan breaks an ordering rule.
    """

    by: Literal["precheck", "order"]
    precheck: Name | None
    reason: Name
    remedy: str


class PlanDocument(Document):
    """A plan, and what blocks it.

    Attributes:
        name: name of the plan or runbook.
        fingerprint: hash of the steps and their inputs.
        basis: the inputs of the plan.
        clients: what happens to clients that are connected to the source.
        loss: the likely loss if the plan is executed now; null with --execute, in the file of
            --plan-out, or if no step estimates it. Not part of the fingerprint.
        groups: where groups would resume after the loss of the source; null for other plans, and
            with --execute.
        source_connectors: what the link's source connectors would do; empty with --execute.
        findings: findings of the prechecks, the worst first.
        causes: what keeps checks from running, each cause once.
        refused: why it cannot be executed; empty if it can.
        execute: the command line that executes it.
    """

    SCHEMA = "drctl/plan/1"
    read = From(Plan)
    name: Name
    link: Name
    source: Name
    target: Name
    fingerprint: Annotated[str, ("pattern", "^[0-9a-f]{16}$")]
    basis: Mapping[str, str] = read(lambda p: dict(sorted(p.basis.items())))
    overrides: tuple[OverrideDocument, ...] = read(
        lambda p: override_documents(dict(sorted(p.overrides.items())))
    )
    steps: tuple[PlanStepDocument, ...]
    clients: tuple[LeavingRow, ...]
    loss: LossDocument | None
    groups: ForeseenGroups | None
    source_connectors: tuple[MovedConnectorDocument, ...]
    findings: tuple[FindingDocument, ...]
    causes: tuple[CauseDocument, ...]
    refused: tuple[RefusedDocument, ...]
    execute: Name


def plan_document(
    plan: Plan,
    findings: Sequence[Finding],
    violations: Sequence[str],
    execute: str,
    kinds: Mapping[str, Kind] = KINDS,
    loss: Loss | None = None,
    groups: Foreseen | None = None,
    source_connectors: Sequence[MovedConnector] = (),
) -> PlanDocument:
    """Build the document.

    Args:
        findings: current findings of the prechecks.
        violations: ordering rules that the plan breaks.
        execute: the command line that executes it.
        loss: the likely loss; None if it was not estimated.
        groups: where groups would resume; None if it was not estimated.
        source_connectors: what source connectors would do.
    """
    shared = group_by_cause([each for each in findings if each.status is not Status.OK])[1]
    order = (
        RefusedDocument(by="order", precheck=None, reason=each, remedy="") for each in violations
    )
    prechecks = (
        RefusedDocument(
            by="precheck", precheck=each.precheck, reason=each.message, remedy=each.remedy
        )
        for each in blockers_by_cause(plan, findings)
    )
    return PlanDocument.of(
        plan,
        steps=tuple(_step(step, kinds) for step in plan.steps),
        clients=leaving_rows(plan, kinds),
        loss=None if loss is None else loss_document(loss),
        groups=None if groups is None else ForeseenGroups.of(groups),
        source_connectors=MovedConnectorDocument.each(source_connectors),
        findings=FindingDocument.each(without_shared_causes(worst_first(findings), shared)),
        causes=CauseDocument.each(shared),
        refused=(*order, *prechecks),
        execute=execute,
    )


_PRECHECK_STYLES = {"fail": "bold red", "not-checked": "yellow", "warn": "yellow"}


@view
def plan_table(
    plan: Plan,
    findings: Sequence[Finding],
    violations: Sequence[str],
    execute: str,
    loss: Loss | None = None,
    groups: Foreseen | None = None,
    source_connectors: Sequence[MovedConnector] = (),
) -> Iterator[Part]:
    """Show the headline, likely loss, steps, notes on clients, prechecks, and what to do now."""
    if network := network_suspected(findings):
        yield Text(sentence(network), "bold red")
    headline = verdict(plan, findings, violations, groups)
    resets = groups is not None and groups.without_offset
    style = "bold yellow" if resets else "bold green"
    yield Text(headline, "bold red" if headline.startswith("Blocked") else style)
    if loss is not None:
        title = "Not replicated, if executed now"
        yield from _with_evidence(title, loss_lines(loss))
    if groups is not None:
        yield from _with_evidence("Where groups resume", group_lines(groups))
    yield from section("Source connectors", map(sentence, moved_lines(source_connectors)))
    yield heading("Steps")
    steps = map(_cells, step_rows(plan))
    yield Table(steps, ("", "Step", "Action", "Proof", "Rollback"), folded=("Proof", "Rollback"))
    yield from section(f"Clients that are connected to {plain(plan.source)}", leaving_lines(plan))
    mode = mode_of(plan)
    prechecks = prechecks_in_words(findings, plan.overrides, mode)
    yield heading(f"Prechecks: {prechecks}")
    for precheck in precheck_rows(findings, plan.overrides, mode):
        yield from _precheck(precheck)
    yield from section("Do now", next_actions(plan, findings, violations, execute))


def _with_evidence(title: str, lines: Sequence[str]) -> Iterator[Part]:
    words, *evidence = lines
    yield from section(title, [words])
    yield from (Text(f"    {each}", "dim") for each in evidence)


def _cells(row: PlanRow) -> tuple[Text, ...]:
    title = f"{row.title}; {row.unless}" if row.unless else row.title
    back = row.rollback
    if row.enables_writes:
        back = "; ".join(filter(None, (back, "no automatic rollback from here on")))
    style = "bold" if row.enables_writes else ""
    return tuple(Text(part, style) for part in (str(row.number), row.id, title, row.proof, back))


def _precheck(row: PrecheckRow) -> Iterator[Text]:
    head = f"  {row.status.value:<11} "
    words = f"{row.check}: {row.subject}: {row.reason}"
    yield Text(words, _PRECHECK_STYLES.get(row.status.value, ""), head)
    if row.overridden:
        yield Text(f"{'':14}overridden: {row.overridden}", "dim")
    elif row.remedy:
        yield Text(f"{'':14}Fix: {row.remedy}", "dim")
