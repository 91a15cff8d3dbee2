"""The journal: whether a run could write down what it does."""

from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Guards, NotObserved, Verdict, check, fail, ok, seen
from drctl.checks.observed import Observed
from drctl.model.finding import Status


@check(
    "journal-unwritable",
    Family.JOURNAL,
    "a run can write its journal, wherever it is kept",
    Status.FAIL,
    guards=Guards(BOTH, BOTH, overridable=False),
)
def unwritable(observed: Observed) -> Iterator[Verdict]:
    """Whether what is done can be undone, and gone on with."""
    cure = "see that the topic and the state_dir can be written (docs/journal.md)"
    places = seen(observed.journal, "journal", "whether it can be written is", cure)
    if not places:
        raise NotObserved("journal", "no place was looked at", cure)
    for place, why in places.items():
        if why is None:
            yield ok(place, "a run can write its journal here")
        else:
            cost = "a run that nobody wrote down can neither be gone on with nor be undone"
            yield fail(place, "a run cannot write its journal here", why.reason, cost, cure)
