"""Output of the soak test: two lines per round, the command to repeat a failure, a table."""

import signal
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.soak.round import Result
from tests.soak.round_plan import Back, RoundPlan

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
    spent = ", ".join(f"{phase} {seconds:.0f}" for phase, seconds in result.seconds.items())
    times = f"{sum(result.seconds.values()):.0f} s ({spent})"
    verdict = "good" if result.good else "BAD"
    plan = result.plan
    how = plan.back if plan.back is Back.REBUILD else f"{plan.back} {plan.policy}"
    drawn = f"seed {plan.seed}  {verdict}  {plan.out}, {how}, {plan.work}"
    yield "; ".join((drawn, faults, times, counts))
    yield f"  drctl: {', '.join(map(str, result.attempts)) or 'was not called'}"
    if plan.left_out:
        yield f"  not possible here: {', '.join(map(str, plan.left_out))}"
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
    kinds = Counter(f"{each.plan.out} {each.plan.back}" for each in results)
    yield ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    work = Counter(word for each in results for word in str(each.plan.work).split("+"))
    yield ", ".join(f"{count} {kind}" for kind, count in sorted(work.items()))
    spent = Counter[str]()
    for each in results:
        spent.update(each.seconds)
    phases = ", ".join(f"{name} {total / len(results):.1f}" for name, total in spent.items())
    yield f"{spent.total() / len(results):.0f} s per round: {phases}"
    if left_out := sum(len(each.plan.left_out) for each in results):
        yield f"{left_out} faults that are not possible here were left out"
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
        *(f"{result.seconds.get(phase, 0):.0f}" for phase in ("failover", "failback")),
        *(f"{each:,}" if isinstance(each, int) else each for each in counts),
    )
