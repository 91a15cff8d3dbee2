"""Everything that is wrong with a runbook, whatever link it will be run on.

The plan is made for all circumstances that its conditions tell apart; what breaks a rule in any of
them is said, with the circumstances.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drctl.config.document import Scalar, file_text
from drctl.config.problems import Problem, dotted, located
from drctl.config.schema_errors import at_value
from drctl.model.errors import ConfigError
from drctl.plans.inputs import Circumstances
from drctl.runbook.building import Ready, asked_for, held, planned, prepared
from drctl.runbook.reading import Runbook, look_at
from drctl.runbook.site import Site
from drctl.runbook.values import names_of, references, sample
from drctl.runbook.when import Facts, Value, comparisons, observed, worlds


@dataclass(frozen=True, slots=True)
class Linted:
    """A file, and what is wrong with it, in its order.

    Attributes:
        runbook: None where it is none.
        unread: why the file could not be read; empty where it could.
    """

    path: Path
    runbook: Runbook | None = None
    problems: tuple[Problem, ...] = ()
    unread: str = ""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not self.lines

    @property
    def lines(self) -> tuple[str, ...]:
        """`FILE:LINE:COLUMN: path: text` of each."""
        if self.unread:
            return (self.unread,)
        return tuple(f"{located(str(self.path), p.mark, p.path)}: {p.text}" for p in self.problems)


def lint(path: Path, site: Site | None = None) -> Linted:
    """What is wrong with the runbook in a file."""
    try:
        text = file_text(path)
    except ConfigError as error:
        return Linted(path, unread=error.message)
    runbook, problems = look_at(text, path)
    if runbook is not None and not problems:
        problems = list(deep_problems(runbook, site or Site()))
    ordered = sorted(set(problems), key=lambda p: (p.mark, dotted(p.path), p.text))
    return Linted(path, runbook, tuple(ordered))


def lint_all(paths: Iterable[Path], site: Site | None = None) -> tuple[Linted, ...]:
    """The same for files, and for all `*.yaml` in folders."""
    return tuple(
        lint(file, site)
        for path in paths
        for file in (sorted(path.glob("*.yaml")) if path.is_dir() else [path])
    )


def deep_problems(runbook: Runbook, site: Site) -> Iterator[Problem]:
    """What is wrong with the plans that a well-formed runbook makes."""
    values = {name: sample(each) for name, each in runbook.file.parameters.items()}
    everywhere = list(worlds(_compared(runbook)))
    values |= names_of(everywhere[0])
    ready, problems = prepared(runbook, values, site)
    yield from (each for each in problems if not _depends(runbook, each))
    if problems:
        return
    yield from _pointless(runbook, [observed(seen) for seen in everywhere])
    yield from _broken(runbook, ready, everywhere)


def _depends(runbook: Runbook, problem: Problem) -> bool:
    """Whether it may be right with another value of a parameter that has no default."""
    entry = runbook.document.entry(problem.path)
    if entry is None or not isinstance(entry.node, Scalar):
        return False
    declared = runbook.file.parameters
    named = (declared.get(name) for name in references(entry.node.text))
    return any(each is not None and each.default is None for each in named)


def _compared(runbook: Runbook) -> Mapping[str, frozenset[Value]]:
    found: dict[str, set[Value]] = {}
    for condition in runbook.conditions.values():
        for compare in comparisons(condition):
            found.setdefault(compare.fact, set()).add(compare.value)
    return {fact: frozenset(values) for fact, values in found.items()}


def _pointless(runbook: Runbook, everywhere: Sequence[Facts]) -> Iterator[Problem]:
    for number, condition in runbook.conditions.items():
        truths = {condition.holds(facts) for facts in everywhere}
        if len(truths) == 1:
            always = truths.pop()
            text = (
                "is always true: remove it" if always else "is never true: the step is unreachable"
            )
            yield at_value(runbook.document, ("steps", number, "when"), text)


def _broken(
    runbook: Runbook, ready: tuple[Ready, ...], everywhere: Sequence[Circumstances]
) -> Iterator[Problem]:
    asked = asked_for(runbook)
    mismatches: dict[Problem, list[Facts]] = {}
    rules: dict[Problem, list[Facts]] = {}
    fitting: list[Facts] = []
    # Most circumstances lead to the same few orders of steps.
    known: dict[tuple[tuple[str, str, str], ...], list[Problem]] = {}
    for seen in everywhere:
        plan, places, problems = planned(runbook, ready, seen)
        for problem in problems:
            mismatches.setdefault(problem, []).append(observed(seen))
        if not problems:
            fitting.append(observed(seen))
            order = tuple((step.id, step.kind, step.duty.value) for step in plan.steps)
            if order not in known:
                known[order] = held(plan, places, runbook.document)
            for problem in known[order]:
                rules.setdefault(problem, []).append(observed(seen))
    yield from _told(mismatches, [observed(seen) for seen in everywhere], asked)
    yield from _told(rules, fitting, asked)


def _told(
    found: Mapping[Problem, Sequence[Facts]], all_facts: Sequence[Facts], asked: Iterable[str]
) -> Iterator[Problem]:
    for problem, where in found.items():
        said = "" if len(where) == len(all_facts) else f" (where {_where(where, all_facts, asked)})"
        yield Problem(problem.mark, problem.path, problem.text + said)


def _where(where: Sequence[Facts], all_facts: Sequence[Facts], asked: Iterable[str]) -> str:
    """The values that tell these circumstances from all others; else those of the first."""
    telling = {
        name: tuple(dict.fromkeys(facts[name] for facts in where))
        for name in where[0]
        if {facts[name] for facts in where} != {facts[name] for facts in all_facts}
    }
    inside = sum(all(facts[n] in values for n, values in telling.items()) for facts in all_facts)
    if inside != len(where):
        telling = {name: (where[0][name],) for name in sorted(asked) or where[0]}
    return " and ".join(
        f"{name} is {' or '.join(map(str, values))}" for name, values in telling.items()
    )
