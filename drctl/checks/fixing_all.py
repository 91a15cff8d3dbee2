"""Every difference of a link's two ends, as a change of the target or as something that is left."""

from collections.abc import Callable, Iterator

from drctl.checks import parity, parity_acls, parity_people, parity_settings
from drctl.checks.check import NotObserved
from drctl.checks.copies import compared
from drctl.checks.fixing import Fixes, Left, Seen
from drctl.checks.fixing_people import people_left
from drctl.checks.fixing_rules import rules_to_add
from drctl.checks.fixing_settings import settings_to_fix, weaker_keys
from drctl.checks.fixing_topics import partitions_to_add, topics_to_make
from drctl.checks.observed import Observed
from drctl.model.acls import Acls
from drctl.model.finding import Finding, Status

_PARITY = (
    parity.missing,
    parity.fewer,
    parity.settings,
    parity_acls.acls,
    parity_settings.retention,
    parity_settings.timestamps,
    parity_people.scram_users,
    parity_people.quotas,
)
_BY_HAND = (parity_settings.brokers, parity_settings.offsets_partitions)
_OUT_OF_REACH = "it is a setting of the cluster, and not of the link"
_OTHER_RULES = Left(
    "rules-not-compared",
    "ACLs of groups, of transactional ids and of the cluster",
    "drctl sees rules about topics only",
    "an application that may not use its group, or its transactional id, is refused",
    "compare `kafka-acls --list` of both clusters",
)

COMPARED = tuple(check.name for check in (*_PARITY, *_BY_HAND))
"""The checks whose rows are worked through."""


def concerned(observed: Observed) -> tuple[str, ...]:
    """Topics of the source that differ from their copies, or have none."""
    try:
        pairs = compared(observed)
    except NotObserved:
        return ()
    link = observed.link
    missing = (link.source_topic(copy) for copy in pairs.missing)
    return (
        *(name for name in missing if name is not None),
        *(pair.topic.name for pair in pairs.pairs if weaker_keys(pair)),
    )


def all_fixes(observed: Observed, seen: Seen) -> Fixes:
    """What would be changed, and what is left."""
    found = Fixes()
    makers: tuple[Callable[[], Fixes], ...] = (
        lambda: rules_to_add(observed, seen),
        lambda: settings_to_fix(observed, seen),
        lambda: partitions_to_add(observed),
        lambda: topics_to_make(observed, seen),
    )
    for make in makers:
        try:
            found += make()
        except NotObserved:
            # Its check says so, too: see below.
            continue
    left = (*people_left(observed), *_not_seen(observed))
    return found + Fixes(left=left, beyond=(*_of_brokers(observed), *_other_rules(observed)))


def _other_rules(observed: Observed) -> Iterator[Left]:
    acls = observed.target_acls
    if isinstance(acls, Acls) and acls.enforced:
        yield _OTHER_RULES


def _not_seen(observed: Observed) -> Iterator[Left]:
    for check in _PARITY:
        for finding in check.findings(observed):
            if finding.status is Status.NOT_CHECKED:
                yield _left(finding, f"it was not seen: {finding.reason}")


def _of_brokers(observed: Observed) -> Iterator[Left]:
    for check in _BY_HAND:
        for finding in check.findings(observed):
            if finding.status is Status.NOT_CHECKED:
                continue
            if finding.status is not Status.OK:
                yield _left(finding, _OUT_OF_REACH)


def _left(finding: Finding, why: str) -> Left:
    what = f"{finding.subject}: {finding.evidence or finding.reason}"
    return Left(finding.check, what, why, finding.cost, finding.cure)
