"""The link's endpoints: whether they answer and point to the source."""

import stat
from collections.abc import Iterator

from drctl.checks.check import BOTH, Family, Prechecks, check, listed, several
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, not_checked, ok, require, warn
from drctl.model.endpoints import EndpointState
from drctl.model.finding import Status
from drctl.model.text import arguments, plural
from drctl.model.topology import Unavailable

_READABLE = stat.S_IRGRP | stat.S_IROTH
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


@check("secret-files", Family.SECRETS, Status.WARN, Status.FAIL)
def permissions(observed: Observed) -> Verdict:
    """Files with passwords and keys, and drctl.yaml, are accessible to their owner only."""
    subject, remedy = "files with secrets", "check them with `ls -l`"
    files = require(observed.survey.files, subject, "the list is", remedy)
    known = {each.path: each for each in files}
    missing = [each.path for each in known.values() if each.mode is None]
    writable = [each for each in known.values() if each.mode and each.mode & _WRITABLE]
    readable = [each for each in known.values() if each.mode and each.mode & _READABLE]
    if writable:
        evidence = several(f"{each.path} ({each.what}) {each.mode or 0:04o}" for each in writable)
        impact = "another user can change which clusters drctl uses, and its credentials"
        chmod = f"chmod go-w {arguments(*(str(each.path) for each in writable))}"
        return fail(subject, f"writable by other users: {len(writable):,}", evidence, impact, chmod)
    if readable:
        evidence = several(f"{each.path} ({each.what}) {each.mode or 0:04o}" for each in readable)
        impact = "every user of this host can log in to the clusters"
        chmod = f"chmod go-rwx {arguments(*(str(each.path) for each in readable))}"
        return warn(subject, f"readable by other users: {len(readable):,}", evidence, impact, chmod)
    if missing:
        raise NotObserved(subject, f"missing: {listed(missing)}", remedy)
    return ok(subject, "only their owner can read them", plural(len(known), "file"))


_FAMILY = Family.ENDPOINTS
_LOOK = "find out by hand where clients are sent"


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
                "it does not answer",
                state.reason,
                "clients cannot be redirected: they have an outage, or both clusters accept writes",
                "check that it is running and that drctl may query it; or remove it from"
                " `endpoints` and redirect the clients by hand",
            )
        else:
            yield ok(state.endpoint, "it answers", state.message)


@check("endpoint-not-on-source", _FAMILY, Status.WARN, Status.FAIL, prechecks=Prechecks())
def elsewhere(observed: Observed) -> Iterator[Verdict]:
    """Every endpoint of the link points to the source."""
    link = observed.link
    if not link.settings.endpoints:
        remedy = "configure `endpoints` of the link, or document how clients are redirected"
        raise NotObserved("endpoints", "the link has none: drctl redirects no clients", remedy)
    states = require(observed.endpoints, "endpoints", "where they point is", _LOOK)
    for number, state in enumerate(states, 1):
        if isinstance(state, Unavailable):
            reason = f"where it points is not known: {state.reason}"
            yield not_checked(f"endpoint {number}", reason, _LOOK)
        else:
            yield _place(state, link.source, link.target)


def _place(state: EndpointState, source: str, target: str) -> Verdict:
    if state.cluster == source:
        return ok(state.endpoint, f"it points to {source}", state.message)
    if state.cluster == target:
        return warn(
            state.endpoint,
            f"it already points to {target}",
            state.message,
            "its clients are on the target and may write there before the failover",
            "find out who switched it; look for an unfinished run: drctl journal",
        )
    where = f"to {state.cluster}" if state.cluster else "to no known cluster"
    return fail(
        state.endpoint,
        f"it points {where}, not to {source}",
        state.message,
        "its clients are on neither cluster of the link",
        "correct the endpoint, or `endpoints` of the link in drctl.yaml",
    )
