"""Output of the soak test: two lines per round, the command to repeat a failure, a table."""

import signal
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.soak.round import Result
from tests.soak.round_plan import RoundPlan

HEADINGS = (
    "seed",
    "failover",
    "faults",
    "failover s",
    "failback s",
    "acked",
    "lost",
    "skipped",
    "out of order",
    "duplicated",
)


def reported(result: Result) -> Iterator[str]:
    """Summarize a finished round."""
    judged = result.judgement
    counts = (
        f"{judged.acknowledged:,} acknowledged: {judged.lost} lost, {judged.skipped} skipped,"
        f" {judged.out_of_order} out of order, {judged.twice} duplicated"
        if judged
        else "not judged"
    )
    faults = ", ".join(map(str, result.injected)) or "no fault"
    times = f"failover {result.failover_s:.0f} s, failback {result.failback_s:.0f} s"
    verdict = "good" if result.good else "BAD"
    plan = result.plan
    drawn = f"seed {plan.seed}  {verdict}  {plan.out}, {plan.policy}"
    yield "; ".join((drawn, faults, times, counts))
    yield f"  drctl: {', '.join(map(str, result.attempts)) or 'was not called'}"
    if result.rejoined:
        yield f"  clients restarted after being in no group for too long: {result.rejoined}"
    if result.good:
        return
    endings = (f"drctl {' '.join(a.words)}: {a.wrong}" for a in result.attempts if a.wrong)
    for words in (result.failure, *endings, *(judged.wrong if judged else ())):
        if words:
            yield f"  {words}"
    yield f"  logs, journals and reports: {result.folder}"
    yield f"  repeat: {repeat(plan)}"


def repeat(plan: RoundPlan) -> str:
    """The command that repeats the round."""
    brokers = f" --brokers {plan.brokers}" if plan.brokers > 1 else ""
    return f"python -m tests.soak --seed {plan.seed} --rounds 1{brokers}"


def table(results: Sequence[Result]) -> Iterator[str]:
    """A table of all rounds, and totals per fault."""
    if not results:
        yield "no round finished"
        return
    rows = [HEADINGS, *(_row(each) for each in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    faults = Counter(str(each.injection.fault) for result in results for each in result.injected)
    typed = [each for result in results for each in result.attempts]
    killed = sum(each.code == -signal.SIGKILL for each in typed)
    at_fault = sum(bool(each.wrong) for each in typed)
    named = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    bad = sum(not each.good for each in results)
    spared = sum(not each.injected for each in results)
    drawn = sum(len(each.plan.on_failover) + len(each.plan.on_failback) for each in results)
    yield ""
    yield f"{len(results)} rounds, {bad} bad, {spared} without an injected fault"
    yield f"{len(typed)} drctl commands, {killed} killed, {at_fault} with a wrong result"
    if rejoined := sum(each.rejoined for each in results):
        yield f"{rejoined} clients restarted after being in no group for too long"
    yield f"{faults.total()} of {drawn} faults injected: {named or 'none'}"


def _row(result: Result) -> tuple[str, ...]:
    judged, plan = result.judgement, result.plan
    counts = (
        (judged.acknowledged, judged.lost, judged.skipped, judged.out_of_order, judged.twice)
        if judged
        else ("?",) * 5
    )
    return (
        f"{plan.seed}{'' if result.good else ' BAD'}",
        str(plan.out),
        ", ".join(str(each.injection.fault) for each in result.injected) or "-",
        f"{result.failover_s:.0f}",
        f"{result.failback_s:.0f}",
        *(f"{each:,}" if isinstance(each, int) else each for each in counts),
    )
