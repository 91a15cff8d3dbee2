"""Producers that move with their ids, and meet others there."""

from collections.abc import Iterator

from drctl.checks.check import PLANNED, Family, Guards, Verdict, check, fail, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.wording import several
from drctl.model.finding import Status
from drctl.model.producer_ids import Collision, Producers, collisions
from drctl.model.topology import Unavailable

_CURE = (
    "restart the producers when they are moved: they get new ids; or stop those of the target first"
    " and wait until their ids expire (producer.id.expiration.ms, a day by default)"
)
_LOOK = "compare `kafka-transactions describe-producers` of both clusters"


@check(
    "producer-ids-collide",
    Family.PRODUCERS,
    "no producer of the source would meet another one of its id on the target",
    Status.WARN,
    Status.FAIL,
    guards=Guards(needed=PLANNED),
)
def collide(observed: Observed) -> Iterator[Verdict]:
    """Whether records of a moved producer would be taken for another's."""
    link = observed.link
    subject = f"producer ids on clusters {link.source} and {link.target}"
    source = seen(observed.source_producers, subject, "those of the source are", _LOOK)
    target = seen(observed.target_producers, subject, "those of the target are", _LOOK)
    met = collisions(source, target, link.target_topic)
    silent = [each for each in met if each.silent]
    refused = [each for each in met if not each.silent]
    if silent:
        cost = "records of theirs may be acknowledged and not stored"
        yield fail(subject, _said(silent), _told(silent), cost, _CURE)
    if refused:
        cost = "their records are refused, and producers of librdkafka end with a fatal error"
        yield warn(subject, _said(refused), _told(refused), cost, _CURE)
    unread = [*_unread(source), *_unread(target)]
    if unread:
        reason = f"those of {len(unread):,} partitions could not be read"
        yield Verdict(Status.NOT_CHECKED, subject, reason, several(unread), cure=_LOOK)
    elif not met:
        yield ok(subject, "none of them stands for two", f"{len(source):,} partitions compared")


def _said(met: list[Collision]) -> str:
    return f"{len({each.ours.producer_id for each in met}):,} ids stand for different producers"


def _told(met: list[Collision]) -> str:
    return several(
        f"id {each.ours.producer_id} in {each.source} (epoch {each.ours.epoch}) and in"
        f" {each.target} (epoch {each.theirs.epoch})"
        for each in met
    )


def _unread(side: Producers) -> Iterator[str]:
    return (f"{p}: {each.reason}" for p, each in side.items() if isinstance(each, Unavailable))
