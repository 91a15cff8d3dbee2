"""Parity of who may come, and of how much they may do: SCRAM users and client quotas."""

from collections.abc import Iterator, Mapping

from drctl.checks.check import Family, Verdict, check, fail, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.wording import listed, several
from drctl.model.finding import Status
from drctl.model.survey import Entity

_FAMILY = Family.PARITY
_USER = "User:"


@check(
    "parity-of-scram-users",
    _FAMILY,
    "every SCRAM user of the source is one of the target, too",
    Status.WARN,
    Status.FAIL,
)
def scram_users(observed: Observed) -> Iterator[Verdict]:
    """Whether applications can log in; whether with the same password nobody can see."""
    link, survey = observed.link, observed.survey
    subject = f"SCRAM users of cluster {link.target}"
    cure = "compare `kafka-configs --describe --entity-type users` of both clusters"
    ours = seen(survey.source.scram_users, subject, f"those of {link.source} are", cure)
    theirs = seen(survey.target.scram_users, subject, "they are", cure)
    missing = sorted(ours - theirs)
    applications = {p.removeprefix(_USER) for p in link.settings.fence.principals}
    if not missing:
        told = f"{len(ours):,} users; whether their passwords are the same nobody can see"
        yield ok(subject, "nobody is missing", told)
        return
    known = sorted(set(missing) & applications)
    told = f"{len(ours):,} on {link.source}, {len(theirs):,} on {link.target}"
    cure = "add them there with the same password: kafka-configs --alter --entity-type users"
    if not theirs:
        cure += "; where there were any, read docs/checks.md on KAFKA-20774 before"
    if known:
        cost = "they cannot log in after the switch: an outage of these applications"
        yield fail(subject, f"applications are missing: {listed(known)}", told, cost, cure)
    else:
        cost = "if somebody uses them, they cannot log in after the switch"
        yield warn(subject, f"{len(missing):,} are missing: {listed(missing)}", told, cost, cure)


@check(
    "parity-of-quotas",
    _FAMILY,
    "nobody has a lower quota on the target than on the source",
    Status.WARN,
)
def quotas(observed: Observed) -> Iterator[Verdict]:
    """Whether clients are held back on the target, or not held back any more."""
    link, survey = observed.link, observed.survey
    subject = f"client quotas of cluster {link.target}"
    cure = "compare `kafka-configs --describe --entity-type users` (and clients) of both clusters"
    ours = seen(survey.source.quotas, subject, f"those of {link.source} are", cure)
    theirs = seen(survey.target.quotas, subject, "they are", cure)
    lower = [row for who in theirs for row in _differing(who, ours.get(who, {}), theirs[who])]
    lost = [f"{_name(who)}: {listed(list(ours[who]))}" for who in ours if who not in theirs]
    if lower:
        cost = "these clients are slowed down after the switch"
        cure = "give them the source's: kafka-configs --alter"
        yield warn(subject, f"{len(lower):,} are lower there", several(lower), cost, cure)
    elif lost:
        cost = "nothing keeps these clients from taking all of the target"
        cure = "set them there, too: kafka-configs --alter"
        yield warn(subject, f"{len(lost):,} are missing there", several(lost), cost, cure)
    else:
        told = f"{len(ours):,} and {len(theirs):,} quotas"
        yield ok(subject, "none is lower or missing", told)


def _differing(
    who: Entity, ours: Mapping[str, float], theirs: Mapping[str, float]
) -> Iterator[str]:
    for key, limit in sorted(theirs.items()):
        wanted = ours.get(key)
        if wanted is None or limit < wanted:
            there = "none" if wanted is None else f"{wanted:g}"
            yield f"{_name(who)}: {key}={limit:g}, on the source {there}"


def _name(who: Entity) -> str:
    return ", ".join(f"{kind} {name if name is not None else '(default)'}" for kind, name in who)
