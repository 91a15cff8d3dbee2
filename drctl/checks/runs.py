"""Earlier runs: whether one stands half-way, and whether something is owed."""

from collections.abc import Iterator

from drctl.checks.check import Family, Verdict, check, fail, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.wording import several
from drctl.model.finding import Status

_HALF_WAY = ("stopped", "unknown", "interrupted", "")


@check(
    "runs-unfinished",
    Family.JOURNAL,
    "no run of the link stands half-way, and none owes anything",
    Status.WARN,
    Status.FAIL,
)
def unfinished(observed: Observed) -> Iterator[Verdict]:
    """Whether somebody is in the middle of it, or was."""
    subject = f"runs of link {observed.link.name}"
    cure = "drctl journal"
    runs = seen(observed.survey.runs, subject, "how they ended is", cure)
    open_ = [run for run in runs if run.status in _HALF_WAY]
    owed = [run for run in runs if run.owed and run not in open_]
    if open_:
        told = several(f"{run.run} ({run.plan}): {run.status or 'not ended'}" for run in open_)
        cost = "something was changed and not everything: the next run begins on half a change"
        cure = f"drctl resume {open_[0].run}, or look whether it still runs"
        yield fail(subject, f"{len(open_):,} stand half-way", told, cost, cure)
    elif owed:
        told = several(f"{run.run}: {owe}" for run in owed for owe in run.owed)
        cost = "what was left out then is still to be done before the lost cluster may return"
        yield warn(subject, f"{len(owed):,} owe something", told, cost, "do it; drctl report RUN")
    else:
        told = f"the newest: {runs[0].run} ({runs[0].status})" if runs else "there are none"
        yield ok(subject, "none stands half-way", told)
