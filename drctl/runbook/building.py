"""A runbook, values for its parameters and a link -> the plan; or everything that is wrong."""

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
from drctl.plans.inputs import Circumstances
from drctl.runbook.reading import Runbook
from drctl.runbook.schema import SHORT, StepConfig
from drctl.runbook.site import Site
from drctl.runbook.specs import (
    SEQUENCE,
    SPECS,
    CheckSettings,
    CommandSettings,
    Given,
    SettingMismatch,
    Spec,
)
from drctl.runbook.values import (
    PATTERNS,
    Values,
    Wrong,
    filled,
    fit_for_shell,
    given_values,
    names_of,
    references,
    seconds,
)
from drctl.runbook.when import comparisons, observed
from drctl.steps.prechecks import Preflight
from drctl.steps.questions import concerned
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
        "reverse replication would append newer records before the missing ones are reconciled"
    ),
}
_SHORT_KEYS = {"manual": "text", "check": "prechecks", "sequence": "name"}
"""Short forms that hold the value of one setting."""

_BY_PEOPLE = frozenset({"manual", "manual-check", "manual-change", "command"})


class Broken(NamedTuple):
    """A rule that a plan breaks.

    Attributes:
        step: the id of the step at which it shows.
    """

    step: str
    text: str


def broken(plan: Plan, kinds: Mapping[str, Kind] = KINDS) -> tuple[Broken, ...]:
    """Every rule that the plan breaks."""
    order = (Broken(line.split()[1], line) for line in violations(plan, kinds))
    return (*order, *_unasked(plan, kinds), *_duties(plan, kinds), *_beside_failback(plan))


def _unasked(plan: Plan, kinds: Mapping[str, Kind]) -> Iterator[Broken]:
    """`check` asks only the prechecks that it names."""
    asked = False
    for step in plan.steps:
        asked = asked or step.kind == Preflight.name
        if Trait.ENABLES_WRITES in kinds[step.kind].traits and not asked:
            why = "enable writes only after all prechecks of a failover have passed"
            yield Broken(step.id, f"step {step.id} needs an earlier step {Preflight.name}: {why}")


def _beside_failback(plan: Plan) -> Iterator[Broken]:
    """Its steps look along the way home; what a runbook says of the link is meant the other way."""
    if not is_failback(plan.steps):
        return
    sequence = next(step.id for step in plan.steps if is_failback([step])).partition(".")[0]
    for step in plan.steps:
        if step.id.partition(".")[0] != sequence and step.kind not in _BY_PEOPLE:
            why = f"a failback can only be combined with {', '.join(sorted(_BY_PEOPLE))}"
            yield Broken(step.id, f"step {step.id} uses the link in the opposite direction: {why}")


def _duties(plan: Plan, kinds: Mapping[str, Kind]) -> Iterator[Broken]:
    drains = any(Trait.DRAINS in kinds[step.kind].traits for step in plan.steps)
    for step in plan.steps:
        if why := _must_be_done(step, kinds[step.kind].traits, drains):
            said = f"step {step.id} must be {Duty.REQUIRED.value}, not {step.duty.value}"
            yield Broken(step.id, f"{said}: {why}")


def _must_be_done(step: Step, traits: Trait, drains: bool) -> str:
    """Why it must; empty where it need not, or is required."""
    if step.duty is Duty.REQUIRED:
        return ""
    for trait, why in _REQUIRED.items():
        if trait in traits:
            return why
    if Trait.FENCES_WRITES in traits:
        if drains:
            return "replication never catches up while the source accepts writes"
        if step.duty is Duty.OPTIONAL:
            return "a fence that fails must be reported as outstanding: use best-effort"
    return ""


@dataclass(frozen=True, slots=True)
class Ready:
    """A step whose settings are as they will be; what link it is for is still open.

    Attributes:
        number: in the file, from 0.
        expect: what a person will see; empty where the kind says it.
        by_hand: command lines for a person.
    """

    number: int
    kind: str
    spec: Spec
    settings: Section
    given: Given
    expect: str = ""
    by_hand: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where it stands in the file."""
        return ("steps", self.number)

    def steps(self, seen: Circumstances) -> tuple[Step, ...]:
        """What it becomes on a link.

        Raises:
            SettingMismatch: a setting does not fit the link.
        """
        return tuple(self.spec.make(self.settings, seen, self.given))


def build(
    runbook: Runbook, given: Mapping[str, str], seen: Circumstances, site: Site | None = None
) -> Plan:
    """The plan of a runbook for these circumstances; the same ones give the same plan.

    Args:
        given: values of parameters as somebody typed them, by name.

    Raises:
        UsageError: a value is missing or does not fit; or no step is for these circumstances.
        ConfigError: a setting is wrong, or the plan breaks a rule; names every place.
    """
    values = {**given_values(runbook.file.parameters, given), **names_of(seen)}
    ready, problems = prepared(runbook, values, site or Site())
    if not problems:
        plan, places, problems = planned(runbook, ready, seen)
        problems += held(plan, places, runbook.document)
    if problems:
        raise config_error(str(runbook.path), problems)
    if not plan.steps:
        now = ", ".join(f"{fact} is {value}" for fact, value in observed(seen).items())
        raise UsageError(f"no step of {runbook.name} applies to this link", now)
    return plan


def prepared(
    runbook: Runbook, values: Values, site: Site
) -> tuple[tuple[Ready, ...], list[Problem]]:
    """The steps with their settings, and what is wrong with these."""
    problems: list[Problem] = []
    found = []
    for number, step in enumerate(runbook.file.steps):
        ready = _prepared(step, number, values, runbook.document, problems)
        if ready is not None:
            problems += _not_here(ready, site, runbook.document)
            found.append(ready)
    return tuple(found), problems


def planned(
    runbook: Runbook, ready: tuple[Ready, ...], seen: Circumstances
) -> tuple[Plan, Mapping[str, Path], list[Problem]]:
    """The plan, where each of its steps comes from, and what does not fit the link."""
    facts = observed(seen)
    steps: list[Step] = []
    places: dict[str, Path] = {}
    problems: list[Problem] = []
    for each in ready:
        condition = runbook.conditions.get(each.number)
        if condition is not None and not condition.holds(facts):
            continue
        try:
            made = each.steps(seen)
        except SettingMismatch as mismatch:
            place = _place(each.number, each.kind, (mismatch.key,), runbook.file.steps[each.number])
            problems.append(at_value(runbook.document, place, str(mismatch)))
            continue
        for step in made:
            if step.id in places:
                text = f"step id {step.id} is used twice once sequences are expanded"
                problems.append(at_value(runbook.document, (*each.path, "id"), text))
            places[step.id] = each.path
            steps.append(step)
    basis = {**seen.basis, f"runbook {runbook.name}": runbook.fingerprint}
    basis |= {f"fact {name}": str(facts[name]) for name in sorted(asked_for(runbook))}
    ends = (seen.target, seen.source) if is_failback(steps) else (seen.source, seen.target)
    plan = Plan(runbook.name, seen.link, *ends, concerned(steps, KINDS), basis, seen.overrides)
    return plan, places, problems


def held(plan: Plan, places: Mapping[str, Path], document: Document) -> list[Problem]:
    """The rules that the plan breaks, each at its step in the file."""
    return [at_key(document, places[rule.step], rule.text) for rule in broken(plan)]


def asked_for(runbook: Runbook) -> frozenset[str]:
    """The facts on which some step depends."""
    return frozenset(
        compare.fact for each in runbook.conditions.values() for compare in comparisons(each)
    )


def _prepared(
    step: StepConfig, number: int, values: Values, document: Document, problems: list[Problem]
) -> Ready | None:
    used = next(key for key in SHORT if getattr(step, key) is not None)
    kind = str(step.step) if used == "step" else used
    spec = SEQUENCE if used == "sequence" else SPECS[kind]
    place = partial(_place, number, kind, step=step)

    def wrong(path: Path, text: str) -> None:
        problems.append(at_value(document, path, text))

    fill = partial(filled, values=values, wrong=wrong)
    raw = fill(_raw(step, used), path=place(()))
    expect = fill(step.expect, path=("steps", number, "expect"))
    by_hand = _by_hand(step, number, values, wrong)
    patience = _patience(fill(step.patience, path=("steps", number, "patience")), wrong, number)
    try:
        settings = spec.model.model_validate(raw)
    except ValidationError as error:
        known = tuple(f.alias or n for n, f in spec.model.model_fields.items())
        problems.extend(problems_of(error, document, lambda _: known, PATTERNS, place))
        return None
    given = Given(step.id, step.wanted_duty, patience, expect and str(expect))
    return Ready(number, kind, spec, settings, given, str(expect or ""), by_hand)


def _by_hand(step: StepConfig, number: int, values: Values, wrong: Wrong) -> tuple[str, ...]:
    harmless = fit_for_shell(values)
    path: Path = ("steps", number, "by_hand")
    for line, text in enumerate(step.by_hand):
        for name in references(text):
            if name in values and name not in harmless:
                value = quoted(str(values[name]))
                said = f"the value {value} of {name} cannot be used in a command line"
                wrong((*path, line), said)
    return tuple(map(str, filled(step.by_hand, harmless, path, wrong)))


def _raw(step: StepConfig, used: str) -> Any:
    """The settings as the kind's model names them."""
    if used == "step":
        return step.with_ if step.with_ is not None else {}
    value = getattr(step, used)
    return (
        {_SHORT_KEYS[used]: value}
        if used in _SHORT_KEYS and not isinstance(value, Mapping)
        else value
    )


def _place(number: int, kind: str, loc: Path, step: StepConfig) -> Path:
    """Where in the file a setting stands."""
    head: Path = ("steps", number)
    if step.step is not None:
        return (*head, "with", *loc) if loc or step.with_ is not None else (*head, "step")
    if kind in _SHORT_KEYS and not isinstance(getattr(step, kind), Mapping):
        return (*head, kind, *loc[1:])
    return (*head, kind, *loc)


def _patience(value: object, wrong: Wrong, number: int) -> float | None:
    if value is None:
        return None
    try:
        return seconds(value)
    except ValueError as error:
        wrong(("steps", number, "patience"), str(error))
        return None


def _not_here(ready: Ready, site: Site, document: Document) -> Iterator[Problem]:
    """Commands and prechecks that the site does not have."""
    settings, head = ready.settings, (*ready.path, "command")
    if isinstance(settings, CheckSettings):
        for number, precheck in enumerate(settings.prechecks):
            if precheck not in site.prechecks:
                text = none_of(precheck, tuple(sorted(site.prechecks)), "precheck")
                place = (*ready.path, "check", number)
                if document.entry(place) is None:
                    place = (*ready.path, "with", "prechecks", number)
                yield at_value(document, place, text)
    if isinstance(settings, CommandSettings):
        where = head if document.entry(head) else (*ready.path, "with")
        for key, argv in settings.command_lines:
            if not site.allows(argv):
                allowed = [" ".join(words) for words in site.commands or ()]
                said = f"allowed: {one_of(allowed)}" if allowed else "there are none"
                text = f"is not among the `commands` of drctl.yaml: {said}"
                yield at_key(document, (*where, key), text)
