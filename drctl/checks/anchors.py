"""Anchors: whether positions are known on the day when the source is dead."""

from collections.abc import Iterator

from drctl.checks.check import Family, Verdict, check, fail, ok, seen, warn
from drctl.checks.observed import Observed
from drctl.checks.wording import duration
from drctl.model.finding import Status
from drctl.model.pasting import quote

_OLD_MS, _DEAD_MS = 5 * 60_000, 24 * 3_600_000


@check(
    "anchors-age",
    Family.ANCHORS,
    "`drctl offsets track` looked at all groups of the link within the last 5 minutes",
    Status.WARN,
    Status.FAIL,
)
def age(observed: Observed) -> Iterator[Verdict]:
    """How old the best evidence of positions is."""
    link = observed.link
    if not link.settings.translate:
        return
    subject = f"anchors on cluster {link.target}"
    cure = f"drctl offsets track --link {quote(link.name)} --execute, as a service"
    cost = "with a dead source, groups go on where only the replicator's own notes say"
    anchors = observed.survey.anchors
    if anchors is None:
        yield warn(subject, "there are none", "no topic __drctl_anchors", cost, cure)
        return
    found = seen(anchors, subject, "how old they are is", cure)
    if found.looked_ms is None:
        told = f"{found.anchors:,} anchors"
        yield warn(subject, "nobody has looked at all groups", told, cost, cure)
        return
    age_ms = max(0, observed.now_ms - found.looked_ms)
    told = f"{found.anchors:,} anchors; the last look was {duration(age_ms)} ago"
    if age_ms > _DEAD_MS:
        reason = "nobody has looked for more than a day"
        yield fail(subject, reason, told, "positions of yesterday: groups read a day again", cure)
    elif age_ms > _OLD_MS:
        cost = "groups read again what they consumed since then"
        yield warn(subject, "they are old", told, cost, cure)
    else:
        yield ok(subject, "somebody keeps them", told)
