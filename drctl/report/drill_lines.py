"""What a drill measured, in words: one sentence a figure, for tables and pages alike."""

from dataclasses import dataclass

from drctl.drill.history import Past, Verdict
from drctl.drill.result import Result
from drctl.report.printable import plain, plural, sentence
from drctl.report.run_words import length

VERDICTS = {
    Verdict.PASSED: "passed",
    Verdict.WORSE: "worse than allowed",
    Verdict.FAILED: "did not go through",
    Verdict.UNKNOWN: "not known",
    Verdict.DIED: "died",
}

_SINCE = {
    "refused": "since the first write that the source refused",
    "last-write": "since the last write that the source took",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A measure, and how it is meant."""

    name: str
    value: str
    how: str


def figures(result: Result) -> tuple[Figure, ...]:
    """RTO, RPO and translation error; none where nothing was measured."""
    measures = result.measures
    if measures is None:
        return ()
    outage, loss, translation = measures.outage, measures.loss, measures.translation
    promised = "no position was committed"
    if translation.promised is not None:
        promised = f"{translation.promised:,} at most were promised"
    return (
        Figure(
            "RTO",
            "not measured" if outage.seconds is None else length(outage.seconds),
            f"first write after {_length(outage.write_s)}, first record read after"
            f" {_length(outage.read_s)}, {_SINCE[outage.since]}",
        ),
        Figure(
            "RPO",
            plural(loss.missing, "record"),
            f"of {loss.acknowledged:,} acknowledged; of the last {length(loss.seconds)} of writes",
        ),
        Figure(
            "Read again",
            plural(translation.reread, "record"),
            f"of {translation.finished:,} that were finished; {promised}",
        ),
        Figure("Skipped", plural(translation.skipped, "record"), "of those on the target"),
    )


def untouched(result: Result) -> str:
    """Whether everything else is as it was."""
    found = result.compared
    if found is None:
        return "whether all else is as it was is not known"
    told = f"{found.counted:,} things compared, and the settings of topics and brokers"
    if found.moved:
        told += f"; {plural(found.moved, 'position')} moved by members of their groups"
    changed = plural(len(found.differences), "difference") if found.differences else "as before"
    return f"{told}: {changed}"


def past_row(past: Past) -> tuple[str, ...]:
    """A drill in the table of all."""
    return (
        f"{past.began:%Y-%m-%d %H:%M}",
        plain(past.link),
        plain(" ".join(filter(None, (past.mode, past.inject)))) or "-",
        VERDICTS[past.verdict],
        "-" if past.rto_s is None else length(past.rto_s),
        "-" if past.missing is None else f"{past.missing:,}",
        "-" if past.reread is None else f"{past.reread:,}",
        "-" if past.skipped is None else f"{past.skipped:,}",
        sentence(past.reasons[0]) if past.reasons else "",
    )


COLUMNS = ("Began, UTC", "Link", "How", "Verdict", "RTO", "Lost", "Read again", "Skipped", "Why")


def _length(seconds: float | None) -> str:
    return "a time that is not known" if seconds is None else length(seconds)
