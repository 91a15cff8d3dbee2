"""The questions of a plan, and answers given in advance with `--answer ID=yes`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drctl.config.problems import did_you_mean, escaped, one_of
from drctl.engine.kind import Kind, Trait
from drctl.model.errors import UsageError
from drctl.model.finding import Finding
from drctl.model.plan import Plan, Step
from drctl.model.typed_json import read_as, to_json
from drctl.steps.fences import FENCE_CONSUMERS
from drctl.steps.manual import BACK, one_line
from drctl.steps.prechecks import Preflight

_WORDS = {"yes": True, "no": False}


def questions(plan: Plan) -> Mapping[str, str]:
    """The questions that are always asked, by id: those of manual steps."""
    return {each.question: one_line(each.text) for each in _asked(plan) if each.text}


@dataclass(frozen=True, slots=True)
class _Asked:
    """The question in a step's settings; without a text, it is asked only if necessary."""

    question: str = ""
    text: str = ""


def _asked(plan: Plan) -> tuple[_Asked, ...]:
    found = (read_as(_Asked, step.settings) for step in plan.steps)
    return tuple(each for each in found if each.question)


def check_words(given: Sequence[str]) -> None:
    """Check that each answer is `ID=yes` or `ID=no`, before there is a plan.

    Raises:
        UsageError: an answer is malformed.
    """
    for pair in given:
        if pair.partition("=")[2] not in _WORDS:
            raise UsageError(f"--answer takes ID=yes or ID=no, not {escaped(pair)}")


def answers(plan: Plan, given: Sequence[str]) -> Mapping[str, bool]:
    """The answers of a command line, by question id.

    Raises:
        UsageError: an answer is malformed, or the plan has no such question.
    """
    check_words(given)
    if not given:
        return {}
    known = [name for each in _asked(plan) for name in (each.question, f"{each.question}{BACK}")]
    found: dict[str, bool] = {}
    for pair in given:
        name, _, word = pair.partition("=")
        if name not in known:
            near = did_you_mean(name, known) or (f"there are {one_of(known)}" if known else "")
            raise UsageError(f"the plan has no question {escaped(name)}", near)
        found[name] = _WORDS[word]
    return found


def unanswered(plan: Plan, given: Mapping[str, bool]) -> Mapping[str, str]:
    """Questions without an answer, which will be asked: without a terminal the run ends there."""
    return {name: text for name, text in questions(plan).items() if name not in given}


_FENCE_PRECHECKS = ("fence-not-possible",)
_GROUP_PRECHECKS = (
    "groups-active-on-target",
    "groups-not-translated",
    "groups-without-coordinator",
)


def with_required_prechecks(steps: Sequence[Step], kinds: Mapping[str, Kind]) -> tuple[Step, ...]:
    """Return the steps; preflight then ignores prechecks that concern none of them.

    If no step fences, it ignores whether a fence is possible; if writes are enabled without
    committing offsets, because consumers move at another time, it ignores the groups.
    """
    traits = [kinds[step.kind].traits for step in steps]

    def has(trait: Trait) -> bool:
        return any(trait in each for each in traits)

    reads = any(step.kind == FENCE_CONSUMERS.name for step in steps)
    names: tuple[str, ...] = () if reads or has(Trait.FENCES_WRITES) else _FENCE_PRECHECKS
    if has(Trait.ENABLES_WRITES) and not has(Trait.COMMITS_OFFSETS):
        names += _GROUP_PRECHECKS
    return tuple(
        _not_asking(step, names) if names and step.kind == Preflight.name else step
        for step in steps
    )


def _not_asking(step: Step, names: tuple[str, ...]) -> Step:
    settings = replace(Preflight().read_settings(step.settings), not_asked=names)
    return replace(step, settings=to_json(settings))


def asked_of(plan: Plan, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of the prechecks that the plan does not ignore."""
    left_out = {
        name
        for step in plan.steps
        if step.kind == Preflight.name
        for name in Preflight().read_settings(step.settings).not_asked
    }
    return tuple(each for each in findings if each.check not in left_out)
