"""Applications: which clients they have, as whom they come, and where they are now."""

import re
from collections.abc import Iterator

from drctl.checks.acls import RuleBook
from drctl.checks.check import (
    BOTH,
    PLANNED,
    Family,
    Prechecks,
    check,
    listed,
    reasons,
    several,
    split,
)
from drctl.checks.observed import Observed
from drctl.checks.verdict import NotObserved, Verdict, fail, not_checked, ok, require, warn
from drctl.model.finding import Status
from drctl.model.groups import OFFSETS_TOPIC, Group
from drctl.model.survey import of_applications


@check("groups-active-on-target", Family.GROUPS, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def active(observed: Observed) -> Iterator[Verdict]:
    """Nobody reads in the link's groups on the target."""
    if not observed.link.settings.translate:
        return
    subject = f"groups on cluster {observed.link.target}"
    remedy = "look at them with `kafka-consumer-groups --describe --state`"
    groups = require(observed.target_groups, subject, "who reads in them is", remedy)
    described, unread = split(dict(sorted(groups.items())))
    reading = [group for group in described.values() if group.active]
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
        reason = f"who reads in {len(unread):,} of them is not known"
        yield not_checked(subject, reason, remedy, reasons(unread))
    if not reading and not unread:
        yield ok(subject, "nobody reads in the link's groups", f"{len(groups):,} groups")


@check("groups-unseen", Family.GROUPS, Status.FAIL, prechecks=Prechecks(PLANNED))
def unseen(observed: Observed) -> Verdict | None:
    """Before a planned failover, the source has a coordinator for every group."""
    if not observed.link.settings.translate:
        return None
    subject = f"groups on cluster {observed.link.source}"
    remedy = f"look whether {OFFSETS_TOPIC} has all its leaders: `kafka-topics --describe`"
    found = require(
        observed.source_coordinators, subject, "whether all have a coordinator is", remedy
    )
    if found.missing and observed.source_groups == ():
        return ok(subject, "there are no groups", f"{OFFSETS_TOPIC} is not there, or not shown")
    if found.missing:
        reason = "whether all have a coordinator is not known"
        raise NotObserved(subject, reason, remedy, f"drctl's user may not see {OFFSETS_TOPIC}")
    if found.offline:
        return fail(
            subject,
            f"{len(found.offline):,} of {found.partitions:,} partitions of {OFFSETS_TOPIC} have"
            " no leader",
            f"without a leader: {listed(found.offline)}; absent brokers: {listed(found.absent)}",
            "groups that are kept there are in no list: they would be moved without their"
            " positions, and begin where their auto.offset.reset says",
            "bring the brokers back that hold them, or elect leaders: drctl elect",
        )
    return ok(subject, "every group has a coordinator", f"{found.partitions:,} partitions")


@check("groups-left-out", Family.GROUPS, Status.FAIL, prechecks=Prechecks(PLANNED, PLANNED))
def left_out(observed: Observed) -> Verdict | None:
    """Before a planned failover, every position of the link's groups has a place on the target."""
    if not observed.link.settings.translate:
        return None
    subject = f"groups of link {observed.link.name}"
    remedy = "`drctl offsets explain GROUP TOPIC PARTITION` tells what is known of each"
    rows = require(observed.left_out, subject, "which have a place on the target is", remedy)
    if not rows:
        return ok(subject, "every position has a place on the target")
    names = dict.fromkeys(row.group for row in rows)
    return fail(
        subject,
        f"{len(rows):,} positions of {len(names):,} groups have no place on the target:"
        f" {listed(names)}",
        several(f"{row.group} {row.partition}: {row.reason}" for row in rows),
        "they begin where their auto.offset.reset says: they skip everything, or read all again",
        remedy,
    )


def _members(group: Group) -> str:
    told = listed([f"{m.client_id}@{m.host}" for m in group.members], 3)
    return f"{group.name} is {group.state.value}" + (f", with {told}" if told else "")


_FAMILY = Family.CLIENTS
_JAVA = "java"
_GIVE = "drctl doctor --client FILE[=java-3.9.1|librdkafka-2.12.0]"
_NO_COORDINATOR = ((2, 5, 0), (2, 6, 2)), ((2, 7, 0), (2, 7, 1))
"""KAFKA-10793: from, and before; a consumer may never find its coordinator again."""

_STALE_COORDINATOR = (2, 7, 1), (3, 2, 0)
"""KAFKA-13563: the same for consumers that assign() themselves; some releases have it fixed."""


@check("client-settings", _FAMILY)
def settings(observed: Observed) -> Verdict:
    """The applications' own settings let them move: they are told with `--client`."""
    clients = observed.survey.clients
    if not clients:
        reason = "neither cluster knows them: retries, rebootstrap, timeouts, auto.offset.reset"
        raise NotObserved("applications", reason, f"{_GIVE}, one for each (docs/howto/clients.md)")
    told = listed([client.subject for client in clients])
    return ok("applications", f"{len(clients):,} were looked at: see rows client-...", told)


@check("client-versions", _FAMILY, Status.WARN, Status.FAIL)
def versions(observed: Observed) -> Iterator[Verdict]:
    """No Java client is of a release that loses its coordinator (KAFKA-10793, KAFKA-13563)."""
    look = (
        f"{_GIVE}; brokers count clientSoftwareName and clientSoftwareVersion of their connections"
        " (MBeans kafka.server:type=socket-server-metrics), and no request asks for these"
    )
    if not observed.survey.clients:
        reason = "brokers do not tell which versions their clients have"
        raise NotObserved("applications", reason, look)
    for client in observed.survey.clients:
        release = _release(client.release)
        if client.library != _JAVA:
            yield ok(client.subject, "it is no Java client: these bugs are not its own")
        elif release is None:
            yield not_checked(client.subject, "which release it has was not said", _GIVE)
        elif any(first <= release < fixed for first, fixed in _NO_COORDINATOR):
            yield fail(
                client.subject,
                "its release has KAFKA-10793",
                f"java {client.release}",
                "when its coordinator goes, it may never find another one: it reads no more",
                "use 2.6.2, or 3.2.0 and later",
            )
        elif _STALE_COORDINATOR[0] <= release < _STALE_COORDINATOR[1]:
            yield warn(
                client.subject,
                "its release may have KAFKA-13563",
                f"java {client.release}",
                "where it assigns partitions itself, it may not commit after its coordinator went",
                "use 3.2.0 or later",
            )
        else:
            yield ok(client.subject, "its release has neither", f"java {client.release}")


def _release(text: str) -> tuple[int, ...] | None:
    """Three numbers; None where there are none."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


@check("super-users", _FAMILY, Status.WARN)
def super_users(observed: Observed) -> Verdict:
    """The applications to be fenced (`fence.principals`) have rules, and are no super users."""
    subject = f"applications on cluster {observed.link.source}"
    principals = observed.link.settings.fence.principals
    remedy = "look at super.users of the brokers: no application may be among them"
    if not principals:
        reason = "nobody says who the applications are"
        raise NotObserved(subject, reason, "name them in `fence.principals` of the link")
    acls = require(observed.source_acls, subject, "the rules are", remedy)
    if not acls.enforced:
        raise NotObserved(subject, "there is no authorizer: nobody has rules", remedy)
    allowed = {rule.principal for rule in acls.rules if rule.permission == "ALLOW"}
    without = [name for name in principals if name not in allowed]
    if without:
        reason = f"{listed(without)} have no rule that allows them anything"
        cost = "if they work all the same they are super users, whom the fence does not keep away"
        evidence = f"{len(acls.rules):,} rules; brokers do not tell super.users"
        return warn(subject, reason, evidence, cost, remedy)
    told = f"{listed(principals)}; that they are no super users beside, brokers do not tell"
    return ok(subject, "all of them have rules of their own", told)


@check("wide-rights", _FAMILY, Status.WARN)
def wide_rights(observed: Observed) -> Verdict:
    """No application may do everything with every topic."""
    link = observed.link
    subject = f"ACLs of cluster {link.target}"
    remedy = "look at `kafka-acls --list` there"
    acls = require(observed.target_acls, subject, "they are", remedy)
    if not acls.enforced:
        reason = "it has no authorizer: everybody may do everything"
        cost = "nothing keeps applications from writing to copies before the target is opened"
        return warn(subject, reason, "", cost, "give it one; DENY WRITE on copies until then")
    rules = RuleBook(r for r in acls.rules if r.permission == "ALLOW")
    principals = link.settings.fence.principals or {rule.principal for rule in acls.rules}
    wide = [
        name
        for name in sorted(principals)
        if any(
            r.operation in ("ALL", "WRITE") and r.name == "*" for r in rules.concerning(name, "*")
        )
    ]
    if wide:
        cost = "what one of them does by mistake reaches all copies; the fence must name each topic"
        remedy = "one user an application, with rules for its own topics"
        reason = f"{listed(wide)} may write to every topic"
        return warn(subject, reason, "ALLOW on *", cost, remedy)
    return ok(subject, "nobody may write to every topic", f"{len(acls.rules):,} rules")


@check("groups-on-both", _FAMILY, Status.FAIL)
def on_both(observed: Observed) -> Verdict:
    """No group is read in on both clusters at once."""
    link = observed.link
    subject = f"groups on {link.source} and {link.target}"
    remedy = "look at them with `kafka-consumer-groups --describe --state` on both"
    here = require(observed.survey.readers, subject, f"those of {link.source} are", remedy)
    there = require(observed.target_groups, subject, f"those of {link.target} are", remedy)
    ours, theirs = (
        {name: g for name, g in groups.items() if isinstance(g, Group) and g.active}
        for groups in (here, there)
    )
    both = sorted(ours.keys() & theirs.keys())
    if both:
        reason = f"{len(both):,} are read in on both: {listed(both)}"
        told = several(
            f"{name}: {len(ours[name].members)} members and {len(theirs[name].members)}"
            for name in both
        )
        cost = "they work twice, and the position on the target is theirs, not the translated one"
        remedy = "stop those on the target until it has been opened"
        return fail(subject, reason, told, cost, remedy)
    return ok(subject, "none is read in on both", f"{len(here):,} and {len(there):,} groups")


@check("transactional-ids", _FAMILY, Status.WARN)
def transactional_ids(observed: Observed) -> Verdict:
    """Nobody writes in transactions."""
    subject = f"transactional ids of cluster {observed.link.source}"
    remedy = "look at `kafka-transactions list`"
    known = require(observed.survey.transactional_ids, subject, "they are", remedy)
    ours = of_applications(known)
    if not ours:
        return ok(subject, "its coordinators know none of an application")
    return warn(
        subject,
        f"{len(ours):,} are known: {listed(ours)}",
        "open ones are rows hanging-transactions",
        "replication does not copy transactions but their records: after an unplanned failover a"
        " half of one may be there; exactly-once ends at the cluster's border",
        "stop these producers before clients are moved, and look through what they wrote last",
    )
