"""The fence: whether producers can be kept away from the source."""

from collections.abc import Iterator

from drctl.checks.check import (
    Family,
    Guards,
    NotObserved,
    Verdict,
    asked,
    check,
    fail,
    ok,
    seen,
    warn,
)
from drctl.checks.observed import Observed
from drctl.model.failover import Mode
from drctl.model.finding import Status
from drctl.model.rights import ALTER
from drctl.model.topology import Unavailable

_COMMAND = "fence by a command of the site: `fence: {method: command, command: [...]}`"


@check(
    "fence-not-possible",
    Family.FENCE,
    "the source enforces ACLs, and drctl's user may ALTER them",
    Status.WARN,
    Status.FAIL,
    guards=Guards(),
)
def possible(observed: Observed) -> Iterator[Verdict]:
    """Whether the link's fence would keep anybody away."""
    subject = f"fence of cluster {observed.link.source}"
    method = observed.link.settings.fence.method
    if method == "none":
        reason, cure = "the link has none", "configure `fence: {method: acl, principals: [...]}`"
        yield _not_possible(subject, reason, "fence.method=none", cure, observed)
    elif method == "command":
        reason = "whether the site's command keeps producers away shows only when it runs"
        raise NotObserved(subject, reason, "try it out before the night in which it is needed")
    else:
        yield _by_acl(subject, observed)


def _by_acl(subject: str, observed: Observed) -> Verdict:
    grant = "grant drctl's user DESCRIBE and ALTER on the cluster"
    acls = asked(observed.source_acls, subject, "its ACLs are", grant)
    if isinstance(acls, Unavailable):
        reason = "the source's ACLs cannot be seen"
        cure = f"{grant}, or {_COMMAND}"
        if observed.mode is Mode.UNPLANNED:
            cure = f"where the source is lost, nothing: drctl failback sets the fence; else {cure}"
        return _not_possible(subject, reason, acls.reason, cure, observed)
    if not acls.enforced:
        reason = "the source has no authorizer: ACLs keep nobody away"
        return _not_possible(subject, reason, "ACLs are not enforced", _COMMAND, observed)
    rights = seen(observed.source_rights, subject, "what drctl's user may do is", grant)
    evidence = f"it may {', '.join(sorted(rights)) or 'do nothing'} on the cluster"
    if ALTER not in rights:
        reason = "drctl's user may not change ACLs"
        return _not_possible(subject, reason, evidence, f"{grant}, or {_COMMAND}", observed)
    return ok(subject, "ACLs are enforced, and can be changed", evidence)


def _not_possible(
    subject: str, reason: str, evidence: str, cure: str, observed: Observed
) -> Verdict:
    if observed.mode is Mode.UNPLANNED:
        cost = "when the source returns, its clients go on there: the fence is owed"
        return warn(subject, reason, evidence, cost, cure)
    cost = "the source goes on taking writes while the target takes them, too"
    return fail(subject, reason, evidence, cost, cure)
