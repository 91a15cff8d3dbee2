"""Earlier runs: whether one stands half-way, and whether something is owed."""

from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Guards, Verdict, check, fail, ok, seen, warn
from drctl.checks.observed import NOT_LOOKED_AT, Observed
from drctl.checks.surveyed import NOT_SURVEYED
from drctl.checks.wording import several
from drctl.model.finding import Status
from drctl.model.pasting import quote
from drctl.model.topology import Unavailable
from drctl.model.whereabouts import Unfinished


@check(
    "runs-unfinished",
    Family.JOURNAL,
    "no run of the link stands half-way, and none owes anything",
    Status.WARN,
    Status.FAIL,
    guards=Guards(BOTH, overridable=False),
)
def unfinished(observed: Observed) -> Iterator[Verdict]:
    """Whether somebody is in the middle of it, or was."""
    where, runs = observed.whereabouts, observed.survey.runs
    if where is NOT_LOOKED_AT and runs is NOT_SURVEYED:
        return
    subject = f"runs of link {observed.link.name}"
    known = seen(where, subject, "whether one stands half-way is", "drctl journal")
    if known.unfinished is not None:
        yield _half_way(subject, known.unfinished)
        return
    # What is owed only `doctor` asks; what one that has ended came to keeps nobody from beginning.
    every = () if isinstance(runs, Unavailable) else runs
    owed = [run for run in every if run.owed]
    if owed:
        told = several(f"{run.run}: {owe}" for run in owed for owe in run.owed)
        cost = "what was left out then is still to be done before the lost cluster may return"
        yield warn(subject, f"{len(owed):,} owe something", told, cost, "do it; drctl report RUN")
    else:
        told = f"the newest: {every[0].run} ({every[0].status})" if every else ""
        yield ok(subject, "none stands half-way", told)


def _half_way(subject: str, run: Unfinished) -> Verdict:
    what = "is being carried out" if run.alive else "stopped part-way"
    goes_on = f"`drctl resume {quote(run.run)} --execute` goes on with it"
    return fail(
        subject,
        f"run {run.run} {what}{f'; {run.writes}' if run.writes else ''}",
        f"{run.plan}, carried out by {run.who}",
        "no other may begin before it is at its end: it would begin on half a change",
        f"let it come to its end; where its process is gone, {goes_on}"
        if run.alive
        else f"{goes_on}, without --execute it shows how far it came; with --abandon REASON the run"
        " is left behind",
    )
