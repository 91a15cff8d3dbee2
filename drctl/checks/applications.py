"""Applications: their clients, their principals, and where their groups are active."""

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
from drctl.model.text import kafka_tool, on_each, plural


@check("groups-active-on-target", Family.GROUPS, Status.FAIL, prechecks=Prechecks(BOTH, PLANNED))
def active(observed: Observed) -> Iterator[Verdict]:
    """None of the link's groups is active on the target."""
    if not observed.link.settings.translate:
        return
    subject = f"groups on cluster {observed.link.target}"
    remedy = f"list their states: {_group_states(observed.link.target)}"
    groups = require(observed.target_groups, subject, "whether they are active is", remedy)
    described, unread = split(dict(sorted(groups.items())))
    reading = [group for group in described.values() if group.active]
    if reading:
        yield fail(
            subject,
            f"{plural(len(reading), 'group of the link is', 'groups of the link are')} already"
            " active on it",
            several(map(_members, reading)),
            "their offsets cannot be committed: they may skip or repeat records",
            "stop these consumers until writes are enabled on the target; members that were killed"
            " stay active until their session times out (45 s by default)",
        )
    if unread:
        reason = f"unknown whether {plural(len(unread), 'group is', 'groups are')} active"
        yield not_checked(subject, reason, remedy, reasons(unread))
    if not reading and not unread:
        yield ok(subject, "none of the link's groups is active", plural(len(groups), "group"))


@check("groups-without-coordinator", Family.GROUPS, Status.FAIL, prechecks=Prechecks(PLANNED))
def unseen(observed: Observed) -> Verdict | None:
    """Before a planned failover, the source has a coordinator for every group."""
    if not observed.link.settings.translate:
        return None
    subject = f"groups on cluster {observed.link.source}"
    tool = kafka_tool("kafka-topics.sh", observed.link.source)
    remedy = (
        f"check that every partition of {OFFSETS_TOPIC} has a leader: {tool} --describe --topic"
        f" {OFFSETS_TOPIC}"
    )
    found = require(
        observed.source_coordinators, subject, "whether all have a coordinator is", remedy
    )
    if found.missing and observed.source_groups == ():
        return ok(
            subject, "there are no groups", f"{OFFSETS_TOPIC} does not exist or is not visible"
        )
    if found.missing:
        reason = "whether all groups have a coordinator is not known"
        raise NotObserved(subject, reason, remedy, f"drctl's user may not see {OFFSETS_TOPIC}")
    if found.offline:
        return fail(
            subject,
            f"partitions of {OFFSETS_TOPIC} without a leader: {len(found.offline):,} of"
            f" {found.partitions:,}",
            f"without a leader: {listed(found.offline)}; missing brokers: {listed(found.absent)}",
            "groups stored there are not listed: they would move without their offsets and start at"
            " their auto.offset.reset",
            "restart the brokers that hold them, or elect leaders: drctl elect show",
        )
    return ok(subject, "every group has a coordinator", plural(found.partitions, "partition"))


@check("groups-not-translated", Family.GROUPS, Status.FAIL, prechecks=Prechecks(PLANNED, PLANNED))
def not_translated(observed: Observed) -> Verdict | None:
    """Before a planned failover, every committed offset of the link's groups is translated."""
    if not observed.link.settings.translate:
        return None
    subject = f"groups of link {observed.link.name}"
    remedy = "see why: drctl offsets explain GROUP TOPIC PARTITION"
    rows = require(observed.left_out, subject, "which offsets can be translated is", remedy)
    if not rows:
        return ok(subject, "every committed offset can be translated")
    names = dict.fromkeys(row.group for row in rows)
    return fail(
        subject,
        f"{plural(len(rows), 'committed offset')} of {plural(len(names), 'group')} cannot be"
        f" translated: {listed(names)}",
        several(f"{row.group} {row.partition}: {row.reason}" for row in rows),
        "they start at their auto.offset.reset: they skip everything or reprocess everything",
        remedy,
    )


def _group_states(*clusters: str) -> str:
    return on_each("kafka-consumer-groups.sh", clusters, "--describe --all-groups --state")


def _members(group: Group) -> str:
    members = listed([f"{m.client_id}@{m.host}" for m in group.members], 3)
    return f"{group.name} is {group.state.value}" + (f", with {members}" if members else "")


_FAMILY = Family.CLIENTS
_JAVA = "java"
_GIVE = "drctl doctor --client FILE[=java-3.9.1|librdkafka-2.12.0]"
_NO_COORDINATOR = ((2, 5, 0), (2, 6, 2)), ((2, 7, 0), (2, 7, 1))
"""KAFKA-10793: first affected and first fixed release; a consumer may lose its coordinator."""

_STALE_COORDINATOR = (2, 7, 1), (3, 2, 0)
"""KAFKA-13563: the same for consumers that use assign(); some releases have the fix."""


@check("client-versions", _FAMILY, Status.WARN, Status.FAIL)
def versions(observed: Observed) -> Iterator[Verdict]:
    """No Java client is of a release that loses its coordinator (KAFKA-10793, KAFKA-13563)."""
    look = (
        f"{_GIVE}; brokers report clientSoftwareVersion only over JMX"
        " (kafka.server:type=socket-server-metrics)"
    )
    if not observed.survey.clients:
        reason = "clusters do not report the settings and versions of clients"
        raise NotObserved("applications", reason, look)
    for client in observed.survey.clients:
        release = _release(client.release)
        if client.library != _JAVA:
            yield ok(client.subject, "it is not a Java client: not affected")
        elif release is None:
            yield not_checked(client.subject, "its release was not given", _GIVE)
        elif any(first <= release < fixed for first, fixed in _NO_COORDINATOR):
            yield fail(
                client.subject,
                "its release is affected by KAFKA-10793",
                f"java {client.release}",
                "if its coordinator fails, it may never find another one and stops consuming",
                "upgrade to 2.6.2, or 3.2.0 or later",
            )
        elif _STALE_COORDINATOR[0] <= release < _STALE_COORDINATOR[1]:
            yield warn(
                client.subject,
                "its release may be affected by KAFKA-13563",
                f"java {client.release}",
                "with assign(), it may be unable to commit after its coordinator fails",
                "upgrade to 3.2.0 or later",
            )
        else:
            yield ok(client.subject, "its release is not affected", f"java {client.release}")


def _release(text: str) -> tuple[int, ...] | None:
    """A release as three numbers; None if the text is not a release."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


@check("super-users", _FAMILY, Status.WARN)
def super_users(observed: Observed) -> Verdict:
    """The applications to be fenced (`fence.principals`) have ACLs and are not super users."""
    subject = f"applications on cluster {observed.link.source}"
    principals = observed.link.settings.fence.principals
    remedy = "check super.users of the brokers: it must not list an application"
    if not principals:
        reason = "the link has no `fence.principals`"
        raise NotObserved(
            subject, reason, "list the applications in `fence.principals` of the link"
        )
    acls = require(observed.source_acls, subject, "the ACLs are", remedy)
    if not acls.enforced:
        raise NotObserved(subject, "there is no authorizer: nobody has ACLs", remedy)
    allowed = {rule.principal for rule in acls.rules if rule.permission == "ALLOW"}
    without = [name for name in principals if name not in allowed]
    if without:
        reason = f"without an ALLOW ACL: {listed(without)}"
        impact = "if they work anyway, they are super users, and an ACL fence does not stop them"
        evidence = f"{plural(len(acls.rules), 'ACL')}; brokers do not report super.users"
        return warn(subject, reason, evidence, impact, remedy)
    evidence = f"{listed(principals)}; whether they are super users, too, is not reported"
    return ok(subject, "all of them have ACLs of their own", evidence)


@check("wildcard-permissions", _FAMILY, Status.WARN)
def wildcards(observed: Observed) -> Verdict:
    """No application may write to every topic."""
    link = observed.link
    subject = f"ACLs of cluster {link.target}"
    remedy = f"list them: {kafka_tool('kafka-acls.sh', link.target)} --list"
    acls = require(observed.target_acls, subject, "they are", remedy)
    if not acls.enforced:
        reason = "it has no authorizer: everyone may do everything"
        impact = "applications can write to the copies before the failover"
        return warn(
            subject,
            reason,
            "",
            impact,
            "configure an authorizer, and deny WRITE on the copies until a failover",
        )
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
        impact = "one faulty application can affect every copy; a fence needs an ACL per topic"
        remedy = "use one principal per application, with ACLs for its own topics only"
        reason = f"{listed(wide)} may write to every topic"
        return warn(subject, reason, "ALLOW on *", impact, remedy)
    return ok(subject, "no principal may write to every topic", plural(len(acls.rules), "ACL"))


@check("groups-active-on-both", _FAMILY, Status.FAIL)
def on_both(observed: Observed) -> Verdict:
    """No group is active on both clusters."""
    link = observed.link
    subject = f"groups on {link.source} and {link.target}"
    remedy = f"list their states: {_group_states(link.source, link.target)}"
    here = require(observed.survey.readers, subject, f"those of {link.source} are", remedy)
    there = require(observed.target_groups, subject, f"those of {link.target} are", remedy)
    ours, theirs = (
        {name: g for name, g in groups.items() if isinstance(g, Group) and g.active}
        for groups in (here, there)
    )
    both = sorted(ours.keys() & theirs.keys())
    if both:
        reason = f"active on both clusters: {listed(both)}"
        evidence = several(
            f"{name}: {plural(len(ours[name].members), 'member')} on {link.source},"
            f" {len(theirs[name].members):,} on {link.target}"
            for name in both
        )
        impact = "records are processed twice, and the target's offsets are not the translated ones"
        remedy = "stop them on the target until a failover enables writes there"
        return fail(subject, reason, evidence, impact, remedy)
    return ok(
        subject,
        "no group is active on both clusters",
        f"{plural(len(here), 'group')} on {link.source}, {len(there):,} on {link.target}",
    )


@check("transactional-ids", _FAMILY, Status.WARN)
def transactional_ids(observed: Observed) -> Verdict:
    """No application uses transactions."""
    subject = f"transactional ids of cluster {observed.link.source}"
    remedy = f"list them: {kafka_tool('kafka-transactions.sh', observed.link.source)} list"
    known = require(observed.survey.transactional_ids, subject, "they are", remedy)
    ours = of_applications(known)
    if not ours:
        return ok(subject, "no application uses transactions")
    return warn(
        subject,
        f"{len(ours):,} in use: {listed(ours)}",
        "open transactions: see hanging-transactions",
        "replication copies records, not transactions: after an unplanned failover the target may"
        " have part of a transaction; exactly-once does not span clusters",
        "stop these producers before a failover, and check their last writes",
    )
