"""All errors in a runbook, independent of the link that it will run on.

A plan is made for every combination of facts that the runbook's conditions can distinguish. Each
broken rule is reported with the facts under which it is broken.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drctl.config.document import Scalar, file_text
from drctl.config.problems import Problem, dotted, located
from drctl.config.schema_errors import at_value
from drctl.model.errors import ConfigError
from drctl.plans.inputs import PlanInputs
from drctl.runbook.allowlist import Allowlist
from drctl.runbook.building import PreparedStep, facts_used, make_plan, prepare_steps, rule_problems
from drctl.runbook.reading import Runbook, parse_runbook
from drctl.runbook.values import link_names, references, sample
from drctl.runbook.when import Facts, Value, all_cases, comparisons, observed


@dataclass(frozen=True, slots=True)
class Linted:
    """A file and its errors, in the order of the file.

    Attributes:
        runbook: None if the file is not a runbook.
        read_error: why the file could not be read; empty if it could.
    """

    path: Path
    runbook: Runbook | None = None
    problems: tuple[Problem, ...] = ()
    read_error: str = ""

    @property
    def clean(self) -> bool:
        """Whether there are no errors."""
        return not self.lines

    @property
    def lines(self) -> tuple[str, ...]:
        """`FILE:LINE:COLUMN: path: text` of each error."""
        if self.read_error:
            return (self.read_error,)
        return tuple(f"{located(str(self.path), p.mark, p.path)}: {p.text}" for p in self.problems)


def lint(path: Path, allowlist: Allowlist | None = None) -> Linted:
    """Find the errors in a runbook file."""
    try:
        text = file_text(path)
    except ConfigError as error:
        return Linted(path, read_error=error.message)
    runbook, problems = parse_runbook(text, path)
    if runbook is not None and not problems:
        problems = list(plan_problems(runbook, allowlist or Allowlist()))
    ordered = sorted(set(problems), key=lambda p: (p.mark, dotted(p.path), p.text))
    return Linted(path, runbook, tuple(ordered))


def lint_all(paths: Iterable[Path], allowlist: Allowlist | None = None) -> tuple[Linted, ...]:
    """Lint files, and every `*.yaml` file in folders."""
    return tuple(
        lint(file, allowlist)
        for path in paths
        for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])
    )


def plan_problems(runbook: Runbook, allowlist: Allowlist) -> Iterator[Problem]:
    """Find the errors in the plans of a well-formed runbook."""
    values = {name: sample(each) for name, each in runbook.file.parameters.items()}
    cases = list(all_cases(_compared_values(runbook)))
    values |= link_names(cases[0])
    steps, problems = prepare_steps(runbook, values, allowlist)
    yield from (each for each in problems if not _depends_on_value(runbook, each))
    if problems:
        return
    yield from _constant_conditions(runbook, [observed(case) for case in cases])
    yield from _broken_rules(runbook, steps, cases)


def _depends_on_value(runbook: Runbook, problem: Problem) -> bool:
    """Whether another value of a parameter without a default may solve the problem."""
    entry = runbook.document.entry(problem.path)
    if entry is None or not isinstance(entry.node, Scalar):
        return False
    declared = runbook.file.parameters
    named = (declared.get(name) for name in references(entry.node.text))
    return any(each is not None and each.default is None for each in named)


def _compared_values(runbook: Runbook) -> Mapping[str, frozenset[Value]]:
    found: dict[str, set[Value]] = {}
    for condition in runbook.conditions.values():
        for compare in comparisons(condition):
            found.setdefault(compare.fact, set()).add(compare.value)
    return {fact: frozenset(values) for fact, values in found.items()}


def _constant_conditions(runbook: Runbook, cases: Sequence[Facts]) -> Iterator[Problem]:
    for number, condition in runbook.conditions.items():
        results = {condition.holds(facts) for facts in cases}
        if len(results) == 1:
            text = (
                "is always true: remove it"
                if results.pop()
                else "is never true: the step is unreachable"
            )
            yield at_value(runbook.document, ("steps", number, "when"), text)


def _broken_rules(
    runbook: Runbook, steps: tuple[PreparedStep, ...], cases: Sequence[PlanInputs]
) -> Iterator[Problem]:
    used = facts_used(runbook)
    mismatches: dict[Problem, list[Facts]] = {}
    rules: dict[Problem, list[Facts]] = {}
    valid: list[Facts] = []
    # Most cases result in the same few orders of steps.
    known: dict[tuple[tuple[str, str, str], ...], list[Problem]] = {}
    for case in cases:
        plan, places, problems = make_plan(runbook, steps, case)
        for problem in problems:
            mismatches.setdefault(problem, []).append(observed(case))
        if not problems:
            valid.append(observed(case))
            order = tuple((step.id, step.kind, step.duty.value) for step in plan.steps)
            if order not in known:
                known[order] = rule_problems(plan, places, runbook.document)
            for problem in known[order]:
                rules.setdefault(problem, []).append(observed(case))
    yield from _with_facts(mismatches, [observed(case) for case in cases], used)
    yield from _with_facts(rules, valid, used)


def _with_facts(
    found: Mapping[Problem, Sequence[Facts]], every: Sequence[Facts], used: Iterable[str]
) -> Iterator[Problem]:
    for problem, where in found.items():
        suffix = "" if len(where) == len(every) else f" (if {_where(where, every, used)})"
        yield Problem(problem.mark, problem.path, problem.text + suffix)


def _where(where: Sequence[Facts], every: Sequence[Facts], used: Iterable[str]) -> str:
    """Facts that only these cases have; if there are none, the facts of the first case."""
    distinct = {
        name: tuple(dict.fromkeys(facts[name] for facts in where))
        for name in where[0]
        if {facts[name] for facts in where} != {facts[name] for facts in every}
    }
    matching = sum(all(facts[n] in values for n, values in distinct.items()) for facts in every)
    if matching != len(where):
        distinct = {name: (where[0][name],) for name in sorted(used) or where[0]}
    return " and ".join(
        f"{name} is {' or '.join(map(str, values))}" for name, values in distinct.items()
    )
