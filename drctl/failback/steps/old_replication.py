"""Step b: what copied from the source to the target is stopped, and does not begin by itself."""

from drctl.checks.wording import listed, several
from drctl.failback.facts import Replicator, Stopped
from drctl.failback.situation import Situation
from drctl.failback.step import Seen, done, not_done, unknown
from drctl.model.topology import Unavailable


def old_replication(seen: Situation) -> Seen:
    """Whether the old tail can be appended behind newer records."""
    facts = seen.facts
    if isinstance(facts.forward, Unavailable):
        return _by_command(seen, facts.forward)
    active = [each for each in facts.forward.found if not each.idle]
    if active and seen.home is True:
        return _again(seen)
    if active and seen.unclear:
        return unknown(f"{_told(active)}: {_rightly(seen)}", begun=True)
    if any(each.runs and each.copies for each in active):
        return not_done(
            f"{_told(active)}: it appends what {facts.target} lacks behind newer records, silently",
            begun=True,
        )
    if active:
        return not_done(f"{_told(active)}: it may go on at any moment")
    if facts.forward.missing:
        return unknown(
            f"the workers have no connector {listed(facts.forward.missing)}: it is misnamed in"
            " drctl.yaml, or was deleted, and whatever manages it may bring it back"
        )
    if not facts.forward.copying:
        return unknown("the workers have no connector that copies this link: nobody knows what did")
    return done(_stopped(facts.forward.found))


def _by_command(seen: Situation, unseen: Unavailable) -> Seen:
    """What the site's own command says, where no connectors can be looked at."""
    facts = seen.facts
    told = facts.stopped
    if not isinstance(told, Stopped):
        why = unseen.reason if told is None else told.reason
        return unknown(f"what copies from {facts.source} to {facts.target} cannot be seen: {why}")
    if told.held:
        return done(told.words)
    if seen.home is True:
        return _again(seen)
    if seen.unclear:
        return unknown(f"{told.words}: {_rightly(seen)}", begun=True)
    silently = f"it appends what {facts.target} lacks behind newer records, silently"
    return not_done(f"{told.words}: {silently}", begun=True)


def _again(seen: Situation) -> Seen:
    source = seen.facts.source
    if seen.proven:
        return done(
            "clients are home, and it runs again; comparisons both ways found nothing wrong"
        )
    return unknown(
        f"clients are home on {source} and it runs again (step j): whether it was stopped before"
        " that cannot be seen any more"
    )


def _rightly(seen: Situation) -> str:
    source = seen.facts.source
    return f"rightly where clients use {source}, and whether they have left it cannot be seen"


def _told(active: list[Replicator]) -> str:
    return several(f"connector {each.name} is {'+'.join(sorted(each.states))}" for each in active)


def _stopped(found: tuple[Replicator, ...]) -> str:
    paused = [each.name for each in found if "PAUSED" in each.states]
    told = f"stopped: {listed([each.name for each in found])}"
    if paused:
        told += f"; only paused: {listed(paused)}, which keeps its connections: stop it"
    return told
