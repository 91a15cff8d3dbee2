"""What a plan asks people, and what they said beforehand: `--answer ID=yes`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from drctl.config.problems import did_you_mean, escaped, one_of
from drctl.engine.kind import Kind, Trait
from drctl.model.errors import UsageError
from drctl.model.finding import Finding
from drctl.model.plan import Plan, Step
from drctl.steps.fences import FENCE_CONSUMERS
from drctl.steps.manual import BACK, one_line
from drctl.steps.prechecks import Preflight

_WORDS = {"yes": True, "no": False}


def questions(plan: Plan) -> Mapping[str, str]:
    """What will be asked for certain, by its id: the steps that a person does."""
    return {
        str(step.settings["question"]): one_line(step.settings["text"])
        for step in plan.steps
        if "question" in step.settings and "text" in step.settings
    }


def check_words(given: Sequence[str]) -> None:
    """See that each is `ID=yes` or `ID=no`, before there is a plan.

    Raises:
        UsageError: one is not.
    """
    for pair in given:
        if pair.partition("=")[2] not in _WORDS:
            raise UsageError(f"--answer takes ID=yes or ID=no, not {escaped(pair)}")


def answers(plan: Plan, given: Sequence[str]) -> Mapping[str, bool]:
    """The answers of a command line, by the ids of questions.

    Raises:
        UsageError: one is no `ID=yes` or `ID=no`, or the plan has no such question.
    """
    check_words(given)
    asked = [str(each.settings["question"]) for each in plan.steps if "question" in each.settings]
    known = [name for each in asked for name in (each, f"{each}{BACK}")]
    found: dict[str, bool] = {}
    for pair in given:
        name, _, word = pair.partition("=")
        if name not in known:
            near = did_you_mean(name, known) or (f"there are {one_of(known)}" if known else "")
            raise UsageError(f"the plan has no question {escaped(name)}", near)
        found[name] = _WORDS[word]
    return found


def unanswered(plan: Plan, given: Mapping[str, bool]) -> Mapping[str, str]:
    """Questions without an answer, which will be asked: in CI the run would end there."""
    return {name: text for name, text in questions(plan).items() if name not in given}


NOT_ASKED = "not_asked"
"""Among the settings of a preflight: the prechecks whose findings do not count."""

_OF_A_FENCE = ("fence-not-possible",)


def concerned(steps: Sequence[Step], kinds: Mapping[str, Kind]) -> tuple[Step, ...]:
    """The same steps; without a fence, a preflight does not ask whether one is possible."""
    if any(
        Trait.FENCES_WRITES in kinds[step.kind].traits or step.kind == FENCE_CONSUMERS.name
        for step in steps
    ):
        return tuple(steps)
    return tuple(
        replace(step, settings={**step.settings, NOT_ASKED: list(_OF_A_FENCE)})
        if step.kind == Preflight.name
        else step
        for step in steps
    )


def asked_of(plan: Plan, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings of the prechecks that the plan needs."""
    left_out = {name for step in plan.steps for name in step.settings.get(NOT_ASKED, ())}
    return tuple(each for each in findings if each.check not in left_out)
