"""The link's groups: whether they can be put where they go on."""

from collections.abc import Iterator, Mapping

from drctl.checks.check import BOTH, PLANNED, Family, Guards, Verdict, check, fail, ok, seen
from drctl.checks.observed import Observed
from drctl.checks.wording import listed, several
from drctl.model.finding import Status
from drctl.model.groups import POSITIONS_TOPIC, Group
from drctl.model.replication import LeftOut
from drctl.model.topology import Unavailable

_FAMILY = Family.GROUPS
_MEMBERS = 3


@check(
    "groups-active-on-target",
    _FAMILY,
    "nobody reads in the link's groups on the target",
    Status.FAIL,
    guards=Guards(BOTH, PLANNED),
)
def active(observed: Observed) -> Iterator[Verdict]:
    """Whether the target would refuse the positions of groups."""
    if not observed.link.settings.translate:
        return
    subject = f"groups on cluster {observed.link.target}"
    cure = "look at them with `kafka-consumer-groups --describe --state`"
    groups = seen(observed.target_groups, subject, "who reads in them is", cure)
    reading = [g for _, g in sorted(groups.items()) if isinstance(g, Group) and g.active]
    unread = {n: why for n, why in groups.items() if isinstance(why, Unavailable)}
    if reading:
        yield fail(
            subject,
            f"in {len(reading):,} of the link's groups somebody reads",
            several(map(_members, reading)),
            "their positions cannot be written: they go on where they stand there, and what that"
            " skips or repeats nobody knows",
            "stop these consumers; they are to start again when the target has been opened",
        )
    if unread:
        told = several(f"{name}: {why.reason}" for name, why in sorted(unread.items()))
        reason = f"who reads in {len(unread):,} of them is not known"
        yield Verdict(Status.NOT_CHECKED, subject, reason, told, cure=cure)
    if not reading and not unread:
        yield ok(subject, "nobody reads in the link's groups", f"{len(groups):,} groups")


@check(
    "groups-unseen",
    _FAMILY,
    "before a planned failover, the source has a coordinator for every group",
    Status.FAIL,
    guards=Guards(PLANNED),
)
def unseen(observed: Observed) -> Iterator[Verdict]:
    """Whether there may be groups of which nobody hears, and that would begin anywhere."""
    if not observed.link.settings.translate:
        return
    subject = f"groups on cluster {observed.link.source}"
    cure = f"look whether {POSITIONS_TOPIC} has all its leaders: `kafka-topics --describe`"
    found = seen(observed.source_coordinators, subject, "whether all have a coordinator is", cure)
    if found.missing and observed.source_groups == ():
        yield ok(subject, "there are no groups", f"{POSITIONS_TOPIC} is not there, or not shown")
    elif found.missing:
        reason = "whether all have a coordinator is not known"
        told = f"drctl's user may not see {POSITIONS_TOPIC}"
        yield Verdict(Status.NOT_CHECKED, subject, reason, told, cure=cure)
    elif found.offline:
        yield fail(
            subject,
            f"{len(found.offline):,} of {found.partitions:,} partitions of {POSITIONS_TOPIC} have"
            " no leader",
            f"without a leader: {listed(found.offline)}; absent brokers: {listed(found.absent)}",
            "groups that are kept there are in no list: they would be moved without their"
            " positions, and begin where their auto.offset.reset says",
            "bring the brokers back that hold them, or elect leaders: drctl elect",
        )
    else:
        yield ok(subject, "every group has a coordinator", f"{found.partitions:,} partitions")


@check(
    "groups-left-out",
    _FAMILY,
    "before a planned failover, every position of the link's groups has a place on the target",
    Status.FAIL,
    guards=Guards(PLANNED, PLANNED),
)
def left_out(observed: Observed) -> Iterator[Verdict]:
    """Whether groups would begin where their auto.offset.reset says."""
    if not observed.link.settings.translate:
        return
    subject = f"groups of link {observed.link.name}"
    cure = "`drctl offsets explain GROUP TOPIC PARTITION` tells what is known of each"
    rows = seen(observed.left_out, subject, "which have a place on the target is", cure)
    if not rows:
        yield ok(subject, "every position has a place on the target")
        return
    yield fail(
        subject,
        f"{len(rows):,} positions of {len(_named(rows)):,} groups have no place on the target:"
        f" {listed(_named(rows))}",
        several(f"{row.group} {row.partition}: {row.reason}" for row in rows),
        "they begin where their auto.offset.reset says: they skip everything, or read all again",
        cure,
    )


def _members(group: Group) -> str:
    told = listed([f"{m.client_id}@{m.host}" for m in group.members], _MEMBERS)
    return f"{group.name} is {group.state.value}" + (f", with {told}" if told else "")


def _named(rows: tuple[LeftOut, ...]) -> Mapping[str, None]:
    return dict.fromkeys(row.group for row in rows)
