"""A drill as JUnit XML for CI: a case for each step, and one for each thing that it has to show.

A drill whose exit code is not 0 has a failure or an error here, and one that ends with 0 has none.
"""

from collections.abc import Iterator, Sequence

from drctl.drill.judging import worse
from drctl.drill.result import Result
from drctl.report.drill_lines import VERDICTS, figures, untouched
from drctl.report.junit import Case, Suite, document
from drctl.report.printable import plain, sentence
from drctl.report.run_data import Became

_OF_STEPS = {
    Became.DONE: "",
    # A fence that a dead source cannot have is owed in every such rehearsal.
    Became.OWED: "skipped",
    Became.PASSED: "skipped",
    Became.TAKEN_BACK: "skipped",
    Became.NOT_BEGUN: "skipped",
    Became.FAILED: "failure",
}


def render(result: Result) -> str:
    """The document."""
    return document(
        Suite(
            name=f"drill {plain(result.link)}",
            began=result.began,
            host="localhost",
            classname="drctl.drill",
            cases=[*_steps(result), *_shown(result)],
            properties=_properties(result),
            out="\n".join(_told(result)),
        )
    )


def _case(name: str, found: str, lines: Sequence[str], seconds: float = 0.0) -> Case:
    told = [sentence(line).removesuffix(": ") for line in lines] if found else [""]
    return Case(plain(name), found, told[0], "\n".join(told), plain(name), seconds)


def _steps(result: Result) -> Iterator[Case]:
    for step in result.steps:
        found = _OF_STEPS.get(Became(step.status), "error")
        yield _case(step.id, found, (f"{step.status}: {step.detail}",), step.seconds or 0.0)


def _shown(result: Result) -> Iterator[Case]:
    """What each number that it can exit with stands for."""
    yield _case("goes-through", _broke_off(result), (result.broke_off or "nothing was measured",))
    if result.measures is None:
        yield _case("within-policy", "skipped", ("nothing was measured",))
    else:
        lines = worse(result.measures, result.limits)
        yield _case("within-policy", "failure" if lines else "", lines)
    compared = result.compared
    if compared is None:
        yield _case("all-else-as-before", "error", (result.not_compared or untouched(result),))
    elif compared.unseen:
        yield _case("all-else-as-before", "error", (*compared.unseen, *compared.differences))
    else:
        found = "failure" if compared.differences else ""
        yield _case("all-else-as-before", found, compared.differences)
    yield _case("leaves-nothing", "error" if result.left else "", result.left)


def _broke_off(result: Result) -> str:
    if result.unanswered or result.interrupted:
        return "error"
    return "failure" if result.broke_off or result.measures is None else ""


def _properties(result: Result) -> Iterator[tuple[str, str]]:
    measures = result.measures
    for name, value in (
        ("drill", result.scratch.drill),
        ("verdict", result.verdict.value),
        ("exit_code", int(result.exit_code)),
        ("mode", result.mode),
        ("inject", result.inject),
        ("rto_seconds", measures and measures.outage.seconds),
        ("rpo_records", measures and measures.loss.missing),
        ("rpo_seconds", measures and measures.loss.seconds),
        ("reread", measures and measures.translation.reread),
        ("skipped", measures and measures.translation.skipped),
    ):
        yield name, "" if value is None else str(value)


def _told(result: Result) -> Iterator[str]:
    yield f"drill {result.scratch.drill} over link {plain(result.link)}: {VERDICTS[result.verdict]}"
    yield from (f"{each.name}: {each.value}, {each.how}" for each in figures(result))
    yield from map(sentence, result.reasons)
    yield sentence(untouched(result))
