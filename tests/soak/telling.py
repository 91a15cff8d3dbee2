"""What a soak prints: two lines a round, how to repeat a bad one, a table at the end."""

import signal
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.soak.course import Course
from tests.soak.round import Result

HEADINGS = (
    "seed",
    "out",
    "faults",
    "out s",
    "home s",
    "acked",
    "lost",
    "skipped",
    "order",
    "twice",
)


def told(result: Result) -> Iterator[str]:
    """A round that has ended."""
    judged = result.judgement
    counts = (
        f"{judged.acknowledged:,} acknowledged: {judged.lost} lost, {judged.skipped} skipped,"
        f" {judged.disordered} out of order, {judged.twice} twice"
        if judged
        else "not judged"
    )
    faults = ", ".join(map(str, result.struck)) or "no fault"
    ways = f"out {result.out_s:.0f} s, home {result.home_s:.0f} s"
    verdict = "good" if result.good else "BAD"
    course = result.course
    drawn = f"seed {course.seed}  {verdict}  {course.out}, {course.policy}"
    yield "; ".join((drawn, faults, ways, counts))
    yield f"  drctl: {', '.join(map(str, result.attempts)) or 'was not called'}"
    if result.begun_anew:
        yield f"  clients that were in no group for long, and began anew: {result.begun_anew}"
    if result.good:
        return
    endings = (f"drctl {' '.join(a.words)}: {a.wrong}" for a in result.attempts if a.wrong)
    for words in (result.failure, *endings, *(judged.wrong if judged else ())):
        if words:
            yield f"  {words}"
    yield f"  logs, journals and reports: {result.folder}"
    yield f"  again: {repeat(course)}"


def repeat(course: Course) -> str:
    """The command line that plays the same course."""
    brokers = f" --brokers {course.brokers}" if course.brokers > 1 else ""
    return f"python -m tests.soak --seed {course.seed} --rounds 1{brokers}"


def table(results: Sequence[Result]) -> Iterator[str]:
    """All rounds, and how often each fault came."""
    if not results:
        yield "no round was played to its end"
        return
    rows = [HEADINGS, *(_row(each) for each in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
    faults = Counter(str(each.strike.fault) for result in results for each in result.struck)
    typed = [each for result in results for each in result.attempts]
    killed = sum(each.code == -signal.SIGKILL for each in typed)
    at_fault = sum(bool(each.wrong) for each in typed)
    named = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    bad = sum(not each.good for each in results)
    spared = sum(not each.struck for each in results)
    drawn = sum(len(each.course.leaving) + len(each.course.returning) for each in results)
    yield ""
    yield f"{len(results)} rounds, {bad} bad, {spared} in which no fault came"
    yield f"{len(typed)} commands of drctl, {killed} killed, {at_fault} at fault"
    if anew := sum(each.begun_anew for each in results):
        yield f"{anew} clients were in no group for long, and began anew"
    yield f"{faults.total()} of {drawn} faults came: {named or 'none'}"


def _row(result: Result) -> tuple[str, ...]:
    judged, course = result.judgement, result.course
    counts = (
        (judged.acknowledged, judged.lost, judged.skipped, judged.disordered, judged.twice)
        if judged
        else ("?",) * 5
    )
    return (
        f"{course.seed}{'' if result.good else ' BAD'}",
        str(course.out),
        ", ".join(str(each.strike.fault) for each in result.struck) or "-",
        f"{result.out_s:.0f}",
        f"{result.home_s:.0f}",
        *(f"{each:,}" if isinstance(each, int) else each for each in counts),
    )
