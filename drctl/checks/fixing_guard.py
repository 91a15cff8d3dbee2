"""Whether the source is what counts: after a failover it is the target that clients write to."""

from drctl.checks.observed import Observed
from drctl.model.endpoints import EndpointState
from drctl.model.finding import Finding, Status
from drctl.model.topology import Unavailable

GUARD = "clients-on-source"
_DONE = "done"
_COST = "the target would follow a source that is no longer what clients use"
_CURE = "go the way home first: drctl failback; or fix over a link that leads the way you copy now"


def clients_on_source(observed: Observed) -> Finding:
    """What endpoints and the journal of the link say of where clients are."""
    link = observed.link
    subject = f"link {link.name}"
    moved = tuple(_moved(observed))
    if moved:
        told = "; ".join(moved)
        reason = f"clients were moved to {link.target}"
        return Finding(GUARD, Status.FAIL, subject, reason, told, _COST, _CURE)
    runs = observed.survey.runs
    if isinstance(runs, Unavailable):
        reason = f"whether clients were moved is not known: {runs.reason}"
        return Finding(GUARD, Status.NOT_CHECKED, subject, reason, cure="drctl journal")
    told = f"{len(runs)} runs in the journal"
    return Finding(GUARD, Status.OK, subject, f"nothing says that they are on {link.target}", told)


def _moved(observed: Observed) -> list[str]:
    found = []
    runs, endpoints = observed.survey.runs, observed.endpoints
    if not isinstance(runs, Unavailable):
        moves = (r for r in runs if r.status == _DONE and r.plan.startswith("fail"))
        newest = next(moves, None)
        if newest is not None and newest.plan.startswith("failover"):
            found.append(f"run {newest.run} ({newest.plan}) is done, and no way home after it")
    if not isinstance(endpoints, Unavailable):
        for number, each in enumerate(endpoints, 1):
            if isinstance(each, EndpointState) and each.cluster == observed.link.target:
                found.append(f"endpoint {number} answers with {each.cluster}")
    return found
