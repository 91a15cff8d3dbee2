"""Builds the plan of a runbook for a link, or reports everything that is wrong with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pydantic import ValidationError

from drctl.config.document import Document
from drctl.config.endpoints import Section
from drctl.config.problems import Path, Problem, config_error, one_of, quoted
from drctl.config.schema_errors import at_key, at_value, none_of, problems_of
from drctl.engine.invariants import violations
from drctl.engine.kind import Kind, Trait
from drctl.model.errors import UsageError
from drctl.model.plan import Duty, Plan, Step
from drctl.plans.failback import is_failback
from drctl.plans.inputs import PlanInputs
from drctl.runbook.allowlist import Allowlist
from drctl.runbook.reading import Runbook
from drctl.runbook.schema import ACTION_KEYS, StepConfig
from drctl.runbook.specs import (
    SEQUENCE,
    SPECS,
    CheckSettings,
    CommandSettings,
    SettingMismatch,
    Spec,
    StepOptions,
)
from drctl.runbook.values import (
    PATTERNS,
    Report,
    Values,
    filled,
    given_values,
    link_names,
    references,
    seconds,
    shell_safe,
)
from drctl.runbook.when import comparisons, observed
from drctl.steps.failback import FailbackOrder
from drctl.steps.prechecks import Preflight
from drctl.steps.questions import with_required_prechecks
from drctl.steps.registry import KINDS

_REQUIRED: Mapping[Trait, str] = {
    Trait.RUNS_PRECHECKS: "a precheck that may fail protects nothing",
    Trait.SNAPSHOTS_STATE: "state that was not recorded before a change cannot be restored",
    Trait.DRAINS: "unreplicated records would be lost without notice",
    Trait.STOPS_REPLICATION: "a running replicator would append old records after new ones",
    Trait.COMMITS_OFFSETS: "consumers without committed offsets start at auto.offset.reset",
    Trait.ENABLES_WRITES: "clients would be sent to a cluster that rejects their writes",
    Trait.FINDS_GAP: "records must be found before they can be reconciled",
    Trait.RECONCILES: (
        "reverse replication would append newer records before unreplicated ones are reconciled"
    ),
}
_SHORT_KEYS = {"manual": "text", "check": "prechecks", "sequence": "name"}
"""The setting that a scalar or list under this key is short for."""

_ALLOWED_WITH_FAILBACK = frozenset({"manual", "manual-check", "manual-change", "command"})


class BrokenRule(NamedTuple):
    """A rule that a plan breaks.

    Attributes:
        step: the id of the step that breaks it.
    """

    step: str
    text: str


def broken_rules(plan: Plan, kinds: Mapping[str, Kind] = KINDS) -> tuple[BrokenRule, ...]:
    """Every rule that the plan breaks."""
    order = (BrokenRule(line.split()[1], line) for line in violations(plan, kinds))
    return (*order, *_preflight(plan, kinds), *_duties(plan, kinds), *_with_failback(plan))


def _preflight(plan: Plan, kinds: Mapping[str, Kind]) -> Iterator[BrokenRule]:
    """Require `preflight` before writes are enabled; `check` runs only some prechecks."""
    passed = False
    for step in plan.steps:
        # A failback has its own prechecks.
        passed = passed or step.kind in (Preflight.name, FailbackOrder.name)
        if Trait.ENABLES_WRITES in kinds[step.kind].traits and not passed:
            why = "enable writes only after all prechecks of a failover have passed"
            text = f"step {step.id} needs an earlier step {Preflight.name}: {why}"
            yield BrokenRule(step.id, text)


def _with_failback(plan: Plan) -> Iterator[BrokenRule]:
    """Reject steps for the configured direction: a failback goes from the target to the source."""
    if not is_failback(plan.steps):
        return
    sequence = next(step.id for step in plan.steps if is_failback([step])).partition(".")[0]
    for step in plan.steps:
        if step.id.partition(".")[0] != sequence and step.kind not in _ALLOWED_WITH_FAILBACK:
            allowed = ", ".join(sorted(_ALLOWED_WITH_FAILBACK))
            why = f"a failback can only be combined with {allowed}"
            text = f"step {step.id} uses the link in the opposite direction: {why}"
            yield BrokenRule(step.id, text)


_REPORTED = "a fence that fails must be reported as outstanding"
_REPORTING = f"{Duty.REQUIRED.value} or {Duty.BEST_EFFORT.value}"


def _duties(plan: Plan, kinds: Mapping[str, Kind]) -> Iterator[BrokenRule]:
    drains = any(Trait.DRAINS in kinds[step.kind].traits for step in plan.steps)
    for step in plan.steps:
        if why := _why_required(step, kinds[step.kind].traits, drains):
            allowed = _REPORTING if why == _REPORTED else Duty.REQUIRED.value
            text = f"step {step.id} must be {allowed}, not {step.duty.value}"
            yield BrokenRule(step.id, f"{text}: {why}")


def _why_required(step: Step, traits: Trait, drains: bool) -> str:
    """Why the step must be required; empty if it already is, or need not be."""
    if step.duty is Duty.REQUIRED:
        return ""
    for trait, why in _REQUIRED.items():
        if trait in traits:
            return why
    if Trait.FENCES_WRITES in traits:
        if drains:
            return "replication never catches up while the source accepts writes"
        if step.duty is Duty.OPTIONAL:
            return _REPORTED
    return ""


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """A step with the values of its parameters, for any link.

    Attributes:
        number: its index in the file, from 0.
        expect: the expected result, for people; empty if the runbook has none.
        by_hand: command lines for people.
    """

    number: int
    kind: str
    spec: Spec
    settings: Section
    options: StepOptions
    expect: str = ""
    by_hand: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The path of the step in the file."""
        return ("steps", self.number)

    def steps(self, inputs: PlanInputs) -> tuple[Step, ...]:
        """The steps of a link's plan that this step becomes.

        Raises:
            SettingMismatch: a setting does not fit the link.
        """
        return tuple(self.spec.make(self.settings, inputs, self.options))


def build(
    runbook: Runbook,
    given: Mapping[str, str],
    inputs: PlanInputs,
    allowlist: Allowlist | None = None,
) -> Plan:
    """Build the plan of a runbook; the same inputs result in the same plan.

    Args:
        given: values of parameters by name, as the user typed them.

    Raises:
        UsageError: a value is missing or does not fit, or no step applies to the link.
        ConfigError: a setting is wrong, or the plan breaks a rule; lists all of them.
    """
    values = {**given_values(runbook.file.parameters, given), **link_names(inputs)}
    prepared, problems = prepare_steps(runbook, values, allowlist or Allowlist())
    if not problems:
        plan, places, problems = make_plan(runbook, prepared, inputs)
        problems += rule_problems(plan, places, runbook.document)
    if problems:
        raise config_error(str(runbook.path), problems)
    if not plan.steps:
        facts = ", ".join(f"{fact} is {value}" for fact, value in observed(inputs).items())
        raise UsageError(f"no step of {runbook.name} applies to this link", facts)
    return plan


def prepare_steps(
    runbook: Runbook, values: Values, allowlist: Allowlist
) -> tuple[tuple[PreparedStep, ...], list[Problem]]:
    """Fill in the settings of all steps, and collect what is wrong with them."""
    problems: list[Problem] = []
    found = []
    for number, step in enumerate(runbook.file.steps):
        prepared = _prepare(step, number, values, runbook.document, problems)
        if prepared is not None:
            problems += _not_allowed(prepared, allowlist, runbook.document)
            found.append(prepared)
    return tuple(found), problems


def make_plan(
    runbook: Runbook, prepared: tuple[PreparedStep, ...], inputs: PlanInputs
) -> tuple[Plan, Mapping[str, Path], list[Problem]]:
    """The plan, the path in the file of each of its steps, and what does not fit the link."""
    facts = observed(inputs)
    steps: list[Step] = []
    places: dict[str, Path] = {}
    problems: list[Problem] = []
    for each in prepared:
        condition = runbook.conditions.get(each.number)
        if condition is not None and not condition.holds(facts):
            continue
        try:
            made = each.steps(inputs)
        except SettingMismatch as mismatch:
            place = _place(each.number, each.kind, (mismatch.key,), runbook.file.steps[each.number])
            problems.append(at_value(runbook.document, place, str(mismatch)))
            continue
        for step in made:
            if step.id in places:
                text = f"step id {step.id} is used twice after sequences are expanded"
                problems.append(at_value(runbook.document, (*each.path, "id"), text))
            places[step.id] = each.path
            steps.append(step)
    basis = {**inputs.basis, f"runbook {runbook.name}": runbook.fingerprint}
    basis |= {f"fact {name}": str(facts[name]) for name in sorted(facts_used(runbook))}
    ends = (inputs.source, inputs.target)
    if is_failback(steps):
        ends = (inputs.target, inputs.source)
    required = with_required_prechecks(steps, KINDS)
    plan = Plan(runbook.name, inputs.link, *ends, required, basis, inputs.overrides)
    return plan, places, problems


def rule_problems(plan: Plan, places: Mapping[str, Path], document: Document) -> list[Problem]:
    """The rules that the plan breaks, each at its step in the file."""
    return [at_key(document, places[rule.step], rule.text) for rule in broken_rules(plan)]


def facts_used(runbook: Runbook) -> frozenset[str]:
    """The facts that conditions of the runbook refer to."""
    return frozenset(
        compare.fact for each in runbook.conditions.values() for compare in comparisons(each)
    )


def _prepare(
    step: StepConfig, number: int, values: Values, document: Document, problems: list[Problem]
) -> PreparedStep | None:
    used = next(key for key in ACTION_KEYS if getattr(step, key) is not None)
    kind = str(step.step) if used == "step" else used
    spec = SEQUENCE if used == "sequence" else SPECS[kind]
    place = partial(_place, number, kind, step=step)

    def report(path: Path, text: str) -> None:
        problems.append(at_value(document, path, text))

    fill = partial(filled, values=values, report=report)
    raw = fill(_raw(step, used), path=place(()))
    expect = fill(step.expect, path=("steps", number, "expect"))
    by_hand = _by_hand(step, number, values, report)
    timeout_s = _timeout_s(fill(step.timeout, path=("steps", number, "timeout")), report, number)
    try:
        settings = spec.model.model_validate(raw)
    except ValidationError as error:
        known = tuple(f.alias or n for n, f in spec.model.model_fields.items())
        problems.extend(problems_of(error, document, lambda _: known, PATTERNS, place))
        return None
    duty = None if step.duty is None else Duty(step.duty)
    options = StepOptions(step.id, duty, timeout_s, expect and str(expect))
    return PreparedStep(number, kind, spec, settings, options, str(expect or ""), by_hand)


def _by_hand(step: StepConfig, number: int, values: Values, report: Report) -> tuple[str, ...]:
    safe = shell_safe(values)
    path: Path = ("steps", number, "by_hand")
    for line, text in enumerate(step.by_hand):
        for name in references(text):
            if name in values and name not in safe:
                value = quoted(str(values[name]))
                problem = f"the value {value} of {name} cannot be used in a command line"
                report((*path, line), problem)
    return tuple(map(str, filled(step.by_hand, safe, path, report)))


def _raw(step: StepConfig, used: str) -> Any:
    """The settings, by their names in the kind's model."""
    if used == "step":
        return step.with_ if step.with_ is not None else {}
    value = getattr(step, used)
    return (
        {_SHORT_KEYS[used]: value}
        if used in _SHORT_KEYS and not isinstance(value, Mapping)
        else value
    )


def _place(number: int, kind: str, loc: Path, step: StepConfig) -> Path:
    """The path of a setting in the file."""
    head: Path = ("steps", number)
    if step.step is not None:
        return (*head, "with", *loc) if loc or step.with_ is not None else (*head, "step")
    if kind in _SHORT_KEYS and not isinstance(getattr(step, kind), Mapping):
        return (*head, kind, *loc[1:])
    return (*head, kind, *loc)


def _timeout_s(value: object, report: Report, number: int) -> float | None:
    if value is None:
        return None
    try:
        return seconds(value)
    except ValueError as error:
        report(("steps", number, "timeout"), str(error))
        return None


def _not_allowed(step: PreparedStep, allowlist: Allowlist, document: Document) -> Iterator[Problem]:
    """Commands and prechecks that are not in the allowlist."""
    settings, head = step.settings, (*step.path, "command")
    if isinstance(settings, CheckSettings):
        for number, precheck in enumerate(settings.prechecks):
            if precheck not in allowlist.prechecks:
                text = none_of(precheck, tuple(sorted(allowlist.prechecks)), "precheck")
                place = (*step.path, "check", number)
                if document.entry(place) is None:
                    place = (*step.path, "with", "prechecks", number)
                yield at_value(document, place, text)
    if isinstance(settings, CommandSettings):
        where = head if document.entry(head) else (*step.path, "with")
        for key, argv in settings.command_lines:
            if not allowlist.allows(argv):
                allowed = [" ".join(words) for words in allowlist.commands or ()]
                known = f"allowed: {one_of(allowed)}" if allowed else "there are none"
                text = f"is not among the `commands` of drctl.yaml: {known}"
                yield at_key(document, (*where, key), text)
