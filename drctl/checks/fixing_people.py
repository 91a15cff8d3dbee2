"""Users and quotas that the target lacks: drctl names them, and what a person would type."""

from collections.abc import Iterator, Mapping

from drctl.checks.fixing import Left
from drctl.checks.observed import Observed
from drctl.model.pasting import option
from drctl.model.survey import Entity
from drctl.model.topology import Unavailable

_USERS, _QUOTAS = "parity-of-scram-users", "parity-of-quotas"
_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}
_SECRET = "no cluster tells a password, or what is kept of it: it cannot be copied"
_SHARED = (
    "how much of the target a client may take is for whoever knows the target's brokers to decide"
)


def people_left(observed: Observed) -> Iterator[Left]:
    """Everybody who is missing, and every quota that is missing or lower."""
    yield from _users(observed)
    yield from _quotas(observed)


def _users(observed: Observed) -> Iterator[Left]:
    ours, theirs = observed.survey.source.scram_users, observed.survey.target.scram_users
    if isinstance(ours, Unavailable) or isinstance(theirs, Unavailable):
        return
    for name in sorted(ours - theirs):
        yield Left(
            _USERS,
            f"SCRAM user {name} is not on {observed.link.target}",
            _SECRET,
            "whoever comes as this user cannot log in after the switch",
            f"on {observed.link.target}, with the password that it has: kafka-configs --alter"
            " --add-config 'SCRAM-SHA-512=[password=...]' --entity-type users"
            f" {option('--entity-name', name)}",
        )


def _quotas(observed: Observed) -> Iterator[Left]:
    ours, theirs = observed.survey.source.quotas, observed.survey.target.quotas
    if isinstance(ours, Unavailable) or isinstance(theirs, Unavailable):
        return
    for who in dict.fromkeys((*ours, *theirs)):
        wanted, there = ours.get(who, {}), theirs.get(who, {})
        # One that the source does not have is lower there than none.
        changes = {key: value for key, value in wanted.items() if there.get(key, 0.0) < value}
        if changes:
            limits = _limits(changes)
            told = "lower" if changes.keys() & there.keys() else "not"
            what = f"quota {limits} of {_name(who)} is {told} on {observed.link.target}"
            yield _quota(observed, who, what, option("--add-config", limits))
        more = sorted(there.keys() - wanted.keys())
        if more:
            what = f"quota {','.join(more)} of {_name(who)} is not on {observed.link.source}"
            yield _quota(observed, who, what, option("--delete-config", ",".join(more)))


def _quota(observed: Observed, who: Entity, what: str, change: str) -> Left:
    kinds = ((_TYPES.get(kind, kind), name) for kind, name in who)
    named = " ".join(f"{option('--entity-type', kind)} {_entity(name)}" for kind, name in kinds)
    cure = f"on {observed.link.target}: kafka-configs --alter {change} {named}"
    cost = "these clients are slowed down after the switch, or nothing bounds them"
    return Left(_QUOTAS, what, _SHARED, cost, cure)


def _limits(changes: Mapping[str, float]) -> str:
    return ",".join(f"{key}={value:g}" for key, value in sorted(changes.items()))


def _name(who: Entity) -> str:
    return ", ".join(f"{kind} {name if name is not None else '(default)'}" for kind, name in who)


def _entity(name: str | None) -> str:
    return "--entity-default" if name is None else option("--entity-name", name)
