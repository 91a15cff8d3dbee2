"""Step i: the planned switchover home: endpoints lead to the source, groups have moved."""

from drctl.checks.wording import listed, several
from drctl.failback.facts import Facts, GroupSeen, Replication
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown
from drctl.model.endpoints import EndpointState
from drctl.model.topology import Unavailable

_SYNC = "sync.group.offsets.enabled"


def switched_home(seen: Situation) -> Seen:
    """Where clients are sent, and whether positions were committed under readers."""
    facts = seen.facts
    early = () if seen.home is True else moved_while_read(seen)
    if early:
        told = several(f"{each.name} reads on {listed(each.reading_on)}" for each in early)
        return not_done(
            f"positions of groups were committed on {facts.source} while they are read in: {told}",
            begun=True,
        )
    if not facts.endpoints and seen.failed_back:
        return done(f"by the journal run {seen.failed_back} led clients back to {facts.source}")
    if not facts.endpoints:
        return unknown("the link has no endpoints in drctl.yaml: where clients are is not visible")
    if seen.home is True:
        return done(_home(facts))
    begun = bool(seen.led_home)
    silent = [each.reason for each in facts.endpoints if isinstance(each, Unavailable)]
    if silent:
        return unknown(f"not every endpoint tells: {several(silent)}", begun=begun)
    states = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    told = several(f"{each.endpoint}: {each.words}" for each in states)
    if any(each.cluster is None for each in states):
        return unknown(f"an endpoint leads to no known cluster: {told}", begun=begun)
    if begun:
        leads = f"{len(seen.led_home)} of {len(states)} endpoints lead to {facts.source}"
        return not_done(f"{leads}: {told}", begun=True)
    unseen = "" if seen.rebuilding else _unseen(facts)
    if unseen:
        return unknown(f"whether positions were committed too early is not known: {unseen}")
    return not_done(f"clients are sent to {facts.target}: {told}{_untold(seen)}")


def _unseen(facts: Facts) -> str:
    """Why it is not known of all groups where they are read in, and where they stand."""
    if isinstance(facts.groups, Unavailable):
        return facts.groups.reason
    return several(f"{each.name}: {each.unseen}" for each in facts.groups if each.unseen)


def _untold(seen: Situation) -> str:
    """Positions that may be of before the loss, or translated since: both look alike."""
    groups, target = seen.facts.groups, seen.facts.target
    if isinstance(groups, Unavailable):
        return ""
    names = [each.name for each in groups if each.positions and target in each.reading_on]
    if not names:
        return ""
    return (
        f"; positions on {seen.facts.source} of groups that are read in lie within what it had when"
        f" it was lost: whether they were committed since cannot be told: {listed(names)}"
    )


def moved_while_read(seen: Situation) -> tuple[GroupSeen, ...]:
    """Groups with members whose positions on the source lie behind all that it had when lost."""
    first, groups = seen.first, seen.facts.groups
    if first is None or isinstance(groups, Unavailable) or seen.rebuilding:
        # Where records were lost, positions of before it lie behind all that is there.
        return ()
    where = {seen.facts.source} if _synced(seen.facts) else {seen.facts.source, seen.facts.target}
    ends = first.ends
    return tuple(
        group
        for group in groups
        if where.intersection(group.reading_on)
        and any(offset > ends.get(place, offset) for place, offset in group.positions.items())
    )


def _synced(facts: Facts) -> bool:
    """Whether MirrorMaker 2 keeps the positions up to date all the while, as it may."""
    found = facts.reverse.found if isinstance(facts.reverse, Replication) else ()
    return any(each.connector.config.get(_SYNC) == "true" and each.runs for each in found)


def _home(facts: Facts) -> str:
    states = [each for each in facts.endpoints if isinstance(each, EndpointState)]
    waiting = [each.unfinished[0] for each in states if each.unfinished]
    told = f"all {len(states)} endpoints lead to {facts.source}"
    return f"{told}; not everybody has followed: {several(waiting)}" if waiting else told
