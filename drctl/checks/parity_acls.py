"""Parity of ACLs: those who may write to the source may write to the target, too."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from drctl.checks.access import Access, RuleBook, access
from drctl.checks.check import (
    PLANNED,
    Family,
    Guards,
    NotObserved,
    Verdict,
    check,
    fail,
    ok,
    seen,
    warn,
)
from drctl.checks.observed import Observed
from drctl.checks.wording import listed, several
from drctl.model.acls import Acl, Acls
from drctl.model.finding import Status

_ALLOW, _DENY = "ALLOW", "DENY"
FENCED = ("WRITE", "READ")
"""What a fence denies; `open-target` lifts such rules before it lets clients in."""


class Refusal(NamedTuple):
    """Somebody who could not do on the target what he may do on the source."""

    principal: str
    operation: str
    copy: str


@check(
    "parity-of-acls",
    Family.PARITY,
    "what the applications (`fence.principals`, else all) are allowed to write and read on the"
    " source, they are on the target",
    Status.WARN,
    Status.FAIL,
    guards=Guards(needed=PLANNED),
)
def acls(observed: Observed) -> Iterator[Verdict]:
    """Whether producers and consumers would be refused on the target."""
    link = observed.link
    subject = f"ACLs of cluster {link.target}"
    cure = "compare the ACLs of both clusters with `kafka-acls --list`"
    target = seen(observed.target_acls, subject, "they are", cure)
    if not target.enforced:
        yield ok(subject, "it has no authorizer: everybody may do everything")
        return
    source = seen(observed.source_acls, subject, f"those of cluster {link.source} are", cure)
    known = seen(observed.source_topics, subject, f"the topics of cluster {link.source} are", cure)
    names = link.topics_of(name for name, state in known.items() if state is not None)
    topics = {name: link.target_topic(name) for name in names}
    refused = refusals(source, target, judged_principals(observed, source, subject), topics)
    if not refused:
        told = f"{len(topics):,} topics, {len(source.rules):,} and {len(target.rules):,} rules"
        yield ok(subject, "nobody would be refused who is allowed on the source", told)
        return
    who = listed(dict.fromkeys(each.principal for each in refused))
    told = several(f"{e.principal} may not {e.operation} {e.copy}" for e in refused)
    reason = f"{who} may do {len(refused):,} things on the source that they may not do there"
    cost = "they are refused as soon as they come to the target"
    cure = "add the ALLOW rules there: kafka-acls --add"
    if any(each.operation == "WRITE" for each in refused):
        yield fail(subject, reason, told, cost, cure)
    else:
        yield warn(subject, reason, told, cost, cure)


def judged_principals(observed: Observed, source: Acls, subject: str) -> tuple[str, ...]:
    """Those that are fenced; where nobody says who they are, all that the source allows.

    Raises:
        NotObserved: the source has no authorizer that would know them.
    """
    if given := observed.link.settings.fence.principals:
        return given
    if not source.enforced:
        cure = "name the applications in `fence.principals` of the link"
        raise NotObserved(subject, "nobody says who the applications are", cure)
    return tuple(sorted({r.principal for r in source.rules if r.permission == _ALLOW}))


def refusals(
    source: Acls, target: Acls, principals: Iterable[str], topics: Mapping[str, str]
) -> list[Refusal]:
    """What the source allows and the target does not, by topic of the source and its copy."""
    found: list[Refusal] = []
    ours = RuleBook(rule for rule in source.rules if rule.permission == _ALLOW)
    theirs = RuleBook(target.rules)
    for principal in principals:
        for topic, copy in topics.items():
            allowed = ours.concerning(principal, topic)
            if source.enforced and not allowed:
                continue
            # A fence that is there already says nothing of what they are allowed otherwise.
            there = [r for r in theirs.concerning(principal, copy) if not of_a_fence(r, principal)]
            found += [
                Refusal(principal, operation, copy)
                for operation in FENCED
                if not source.enforced
                or access(allowed, principal, operation, topic) is not Access.NO
                if access(there, principal, operation, copy) is Access.NO
            ]
    return found


def of_a_fence(rule: Acl, principal: str) -> bool:
    """Whether it has the form of a rule that keeps a principal away during a failover."""
    return (
        rule.permission == _DENY
        and rule.operation in FENCED
        and rule.principal == principal
        and rule.pattern == "LITERAL"
    )
