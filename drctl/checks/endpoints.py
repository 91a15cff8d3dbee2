"""The link's endpoints: whether they can be switched, and are where they should be."""

import stat
from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Prechecks, check, listed, several
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, not_checked, ok, require, warn
from drctl.model.endpoints import EndpointState
from drctl.model.finding import Status
from drctl.model.text import arguments
from drctl.model.topology import Unavailable

_READABLE = stat.S_IRGRP | stat.S_IROTH
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


@check("secret-files", Family.SECRETS, Status.WARN, Status.FAIL)
def permissions(observed: Observed) -> Verdict:
    """Files that hold passwords and keys, and drctl.yaml, are the owner's alone."""
    subject, remedy = "files with secrets", "look at them with `ls -l`"
    files = require(observed.survey.files, subject, "which there are is", remedy)
    known = {each.path: each for each in files}
    missing = [each.path for each in known.values() if each.mode is None]
    writable = [each for each in known.values() if each.mode and each.mode & _WRITABLE]
    readable = [each for each in known.values() if each.mode and each.mode & _READABLE]
    if writable:
        told = several(f"{each.path} ({each.what}) {each.mode or 0:04o}" for each in writable)
        cost = "another user decides to which cluster drctl sends what, and as whom"
        chmod = f"chmod go-w {arguments(*(str(each.path) for each in writable))}"
        return fail(subject, f"{len(writable):,} can be changed by others", told, cost, chmod)
    if readable:
        told = several(f"{each.path} ({each.what}) {each.mode or 0:04o}" for each in readable)
        cost = "every user of this machine can log in to the clusters"
        chmod = f"chmod go-rwx {arguments(*(str(each.path) for each in readable))}"
        return warn(subject, f"{len(readable):,} can be read by others", told, cost, chmod)
    if missing:
        raise NotObserved(subject, f"{len(missing):,} are not there: {listed(missing)}", remedy)
    return ok(subject, "only their owner may read them", f"{len(known):,} files")


_FAMILY = Family.ENDPOINTS
_LOOK = "ask it as clients do"


@check("endpoint-unreachable", _FAMILY, Status.FAIL, prechecks=Prechecks(BOTH, BOTH))
def unreachable(observed: Observed) -> Iterator[Verdict]:
    """Every endpoint of the link answers."""
    settings = observed.link.settings.endpoints
    if not settings:
        return
    states = require(observed.endpoints, "endpoints", "whether they answer is", _LOOK)
    for number, (state, config) in enumerate(zip(states, settings, strict=True), 1):
        if isinstance(state, Unavailable):
            yield fail(
                f"endpoint {number} ({config.kind})",
                "it cannot be looked at",
                state.reason,
                "clients stay where they are, and the target is open: an outage, or two clusters"
                " that take writes",
                "see that it runs and that drctl may ask it; or take it out of `endpoints`, and"
                " move the clients by hand",
            )
        else:
            yield ok(state.endpoint, "it answers", state.words)


@check("endpoint-elsewhere", _FAMILY, Status.WARN, Status.FAIL, prechecks=Prechecks())
def elsewhere(observed: Observed) -> Iterator[Verdict]:
    """Every endpoint of the link points to the source."""
    link = observed.link
    if not link.settings.endpoints:
        remedy = "configure `endpoints` of the link, or write down how clients are moved"
        raise NotObserved("endpoints", "the link has none: drctl moves no client", remedy)
    states = require(observed.endpoints, "endpoints", "where they point is", _LOOK)
    for number, state in enumerate(states, 1):
        if isinstance(state, Unavailable):
            reason = f"where it points is not known: {state.reason}"
            yield not_checked(f"endpoint {number}", reason, _LOOK)
        else:
            yield _place(state, link.source, link.target)


def _place(state: EndpointState, source: str, target: str) -> Verdict:
    if state.cluster == source:
        return ok(state.endpoint, f"it points to {source}", state.words)
    if state.cluster == target:
        return warn(
            state.endpoint,
            f"it points to {target} already",
            state.words,
            "clients that use it are on the target, and may write there before it is opened",
            "see who switched it, and whether an earlier run stopped part-way: drctl journal",
        )
    where = f"to {state.cluster}" if state.cluster else "to no cluster that drctl knows"
    return fail(
        state.endpoint,
        f"it points {where}, and not to {source}",
        state.words,
        "clients that use it are on neither cluster: they would be moved from where nobody looked",
        "see what it is for; correct the endpoint, or `endpoints` of the link in drctl.yaml",
    )
