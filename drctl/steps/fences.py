"""Fences producers or consumers on one cluster by ACLs, and verifies it on every broker."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from drctl.checks.acls import RuleBook
from drctl.engine.kind import Description, Facts, Readback, State, StepKind, Trait, failed_items
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.source_fence import FenceFacts
from drctl.model.errors import DrctlError, Refused
from drctl.model.fencing import (
    LITERAL,
    PREFIXED,
    Denied,
    Enforcement,
    Owner,
    Topics,
    denials,
    group_denial,
    rules_of_other_links,
    sign,
    signed,
    to_add,
)
from drctl.model.groups import GroupProtocol
from drctl.model.repairs import GROUP, Acl, Acls
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.steps.commands import COMMAND_FENCE
from drctl.steps.manual import MANUAL_FENCE, FenceIntent, FenceSettings, watched
from drctl.steps.reversed import OppositeDirection
from drctl.steps.stop_replication import STOPPED

_WHO = {Denied.WRITE: "producers", Denied.READ: "consumers"}
_SHOWN = 5

_ERRORS = "consumers get authorization errors for topics"
_RESUME = "they resume once they have moved, or on {cluster} if the fence is removed"
_CLIENTS = {
    "classic": f"{_ERRORS}, members of classic groups also for their group; {_RESUME}",
    "all": f"{_ERRORS} and groups; {_RESUME}, but members of KIP-848 groups need a restart",
    "none": f"{_ERRORS} and stay members of their groups; {_RESUME}",
}
"""What the fence does to clients, by `fence.groups`."""


@dataclass(frozen=True, kw_only=True)
class AclFenceSettings(FenceSettings):
    """The principals to fence.

    Attributes:
        link: the link's name, which marks ACLs that the fences of several links share.
        groups: which groups a fence of consumers denies: see `fence.groups` of drctl.yaml.
    """

    principals: tuple[str, ...]
    link: str = ""
    groups: str = "classic"


@dataclass(frozen=True, kw_only=True)
class AclFenceIntent(FenceIntent):
    """The ACLs of the fence.

    Attributes:
        added: missing ACLs, and ACLs that the fence of another link shares.
        kept: ACLs that an earlier run of the link added.
        open_groups: groups that are not denied, each with the reason.
    """

    link: str = ""
    rules: tuple[Acl, ...]
    added: tuple[Acl, ...]
    kept: tuple[Acl, ...] = ()
    open_groups: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether there are ACLs to add."""
        return bool(self.added)


@dataclass(frozen=True, slots=True)
class Fence(StepKind[AclFenceSettings, AclFenceIntent, FenceFacts]):
    """Denies principals an operation on the link's topics; earlier ACLs are left alone.

    A fence of consumers also denies READ on groups: clients cannot join, send heartbeats or commit.

    Attributes:
        restores_all: whether a repeated step also adds ACLs that existed before the step: step
            enable-writes may have removed them since.
    """

    name: str
    traits: Trait
    operation: Denied
    restores_all: bool = False

    def describe(self, settings: AclFenceSettings) -> Description:
        """Describe the step for plans and reports."""
        who, cluster = ", ".join(settings.principals), settings.cluster
        proof = "every broker has the ACLs"
        if self.operation is Denied.WRITE:
            proof += ", and end offsets are stable"
        clients = ""
        if self.operation is Denied.READ:
            clients = _CLIENTS[settings.groups].replace("{cluster}", cluster)
        return Description(
            f"fence {_WHO[self.operation]} on {cluster}: deny {self.operation} to {who}",
            proof,
            "remove exactly the ACLs that were added",
            clients,
        )

    def check(self, settings: AclFenceSettings, facts: Facts, reader: LinkReader) -> AclFenceIntent:
        """Find the ACLs to add, and the shared ACLs to mark as used by this link.

        Raises:
            Refused: no topic is visible, the cluster has no authorizer, or its ACLs cannot be
                listed.
        """
        cluster, link, topics = settings.cluster, settings.link, reader.topics()
        if not topics:
            raise Refused(
                f"no topic of the link is visible: there is nothing to fence on {cluster}",
                "check `topics` of the link, and that drctl's user may DESCRIBE them",
            )
        present = enforced_acls(cluster, reader)
        rules = denials(settings.principals, [Topics(t) for t in topics], [self.operation])
        open_groups: dict[str, str] = {}
        if self.operation is Denied.READ and settings.groups != "none":
            groups = reader.link_groups(cluster)
            if settings.groups != "all":
                open_groups = _open_groups(cluster, groups, topics, reader)
            closed = [group for group in groups if group not in open_groups]
            rules += tuple(_group_rules(settings.principals, closed, present))
        others = rules_of_other_links(present.rules, link)
        shared = (rule for rule in rules if rule in others)
        added = dict.fromkeys((*to_add(rules, present), *shared))
        return AclFenceIntent(
            **watched(settings, reader),
            link=link,
            rules=tuple(rules),
            added=tuple(added),
            kept=tuple(signed(rules, present.rules, link)),
            open_groups=tuple(f"{name}: {why}" for name, why in open_groups.items()),
        )

    def apply(self, intent: AclFenceIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Add the ACLs; also ACLs of an earlier run of the link, in case they were removed."""
        rules = intent.rules if self.restores_all else (*intent.added, *intent.kept)
        rules = tuple(dict.fromkeys(rules))
        return failed_items(writer.acls(intent.cluster).deny(rules), _rule)

    def verify(self, intent: AclFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """Verify that every broker enforces the ACLs, and that end offsets are stable."""
        cluster, rules = intent.cluster, intent.rules
        present = reader.acls(cluster).acls()
        if rules and isinstance(present, Acls) and not set(rules) & set(present.rules):
            # The proof waits for lagging brokers: pointless if a crashed run added no rule.
            return Readback(State.WAITING, f"ACLs on {cluster} so far: 0 of {len(rules)}")
        if self.operation is Denied.READ:
            # Stable end offsets were proven by the producer fence, and are checked again before
            # writes are enabled on the target.
            return _obeyed(reader.acls(cluster).enforcement(rules, intent.topics), intent)
        proof = reader.fence(cluster, intent.stabilize_seconds).prove(rules, intent.topics)
        ends = {str(place): end for place, end in sorted(proof.no_writes.ends.items())}
        facts = FenceFacts(ends, tuple(sorted(proof.enforcement.brokers)))
        if proof.proven:
            message = (
                f"every broker ({len(facts.brokers)}) enforces the ACLs; the end offsets of"
                f" {plural(len(ends), 'partition')} were stable for {intent.stabilize_seconds:g} s"
            )
            return Readback(State.DONE, message, facts)
        return Readback(State.WAITING, "; ".join(proof.unproven[:_SHOWN]), facts, proof.unproven)

    def undo(self, intent: AclFenceIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Remove the added ACLs, except those that another link shares."""
        return failed_items(writer.acls(intent.cluster).restore(intent.added), _rule)

    def verify_undo(self, intent: AclFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """Verify that no broker enforces the removed ACLs."""
        cluster, added, link = intent.cluster, intent.added, intent.link
        if not added:
            return Readback(State.DONE, "no ACL had been added")
        others = _needed(reader.acls(cluster).acls(), link)
        kept = {rule: others[rule].link for rule in added if rule in others}
        signs = {sign(rule, link) for rule in added} if link else set()
        gone = (set(added) - kept.keys()) | signs
        lifted = reader.acls(cluster).lifted(gone, intent.topics)
        if not lifted.proven:
            return Readback(
                State.WAITING, "; ".join(lifted.unproven[:_SHOWN]), items=lifted.unproven
            )
        message = (
            f"{plural(len(added) - len(kept), 'ACL was', 'ACLs were')} removed from every"
            f" broker of {cluster}"
        )
        if kept:
            links = ", ".join(sorted(set(kept.values())))
            message = f"{message}; {len(kept)} stay: the fence of link {links} uses them"
        return Readback(State.DONE, message)


def enforced_acls(cluster: str, reader: LinkReader) -> Acls:
    """The ACLs of a cluster that enforces them.

    Raises:
        Refused: the cluster has no authorizer, or its ACLs cannot be listed.
    """
    present = reader.acls(cluster).acls()
    if isinstance(present, Unavailable):
        raise Refused(
            f"the ACLs of {cluster} cannot be listed: {present.reason}",
            "allow drctl's user DESCRIBE and ALTER on the cluster, or fence by a command",
        )
    if not present.enforced:
        raise Refused(
            f"{cluster} has no authorizer: ACLs are not enforced",
            "use your own command: fence: {method: command, command: [...]}",
        )
    return present


def _open_groups(
    cluster: str, names: tuple[str, ...], topics: tuple[str, ...], reader: LinkReader
) -> dict[str, str]:
    """Groups of the link that the fence does not deny, each with the reason."""
    found = dict[str, str]()
    described = reader.groups(cluster).described(names) if names else {}
    committed = reader.groups(cluster).committed(names) if names else {}
    for name in names:
        group, positions = described[name], committed[name]
        if isinstance(group, Unavailable) or isinstance(positions, Unavailable):
            found[name] = next(e.reason for e in (group, positions) if isinstance(e, Unavailable))
        elif group.protocol is not GroupProtocol.CLASSIC:
            found[name] = "its members (KIP-848) would fail, and have to be restarted"
        elif others := sorted({place.topic for place in positions} - {*topics}):
            found[name] = f"it also consumes {others[0]}, which the link does not replicate"
    return found


def _group_rules(
    principals: tuple[str, ...], groups: Collection[str], present: Acls
) -> Iterator[Acl]:
    """ACLs that deny groups to principals that may join them; to all if no ACL allows any."""
    allowed = [r for r in present.rules if r.resource == GROUP and r.permission == "ALLOW"]
    book = RuleBook(allowed)
    names = {rule.name for rule in allowed if rule.pattern == LITERAL}
    prefixes = tuple({rule.name for rule in allowed if rule.pattern == PREFIXED})
    for group in groups:
        may = [who for who in principals if book.concerning(who, group, GROUP)]
        if not may and not ({group, "*"} & names or group.startswith(prefixes)):
            may = [*principals]
        yield from (group_denial(who, group) for who in may)


def _obeyed(found: Enforcement, intent: AclFenceIntent) -> Readback[FenceFacts]:
    facts = FenceFacts(brokers=tuple(sorted(found.brokers)))
    if found.proven:
        groups = len({rule.name for rule in intent.rules if rule.resource == GROUP})
        message = f"every broker ({len(facts.brokers)}) enforces the ACLs on"
        message += f" {plural(len(intent.topics), 'topic')} and {plural(groups, 'group')}"
        if intent.open_groups:
            message += f"; not on {plural(len(intent.open_groups), 'group')}: "
            message += "; ".join(intent.open_groups[:_SHOWN])
        return Readback(State.DONE, message, facts)
    return Readback(State.WAITING, "; ".join(found.unproven[:_SHOWN]), facts, found.unproven)


def _needed(present: Acls | Unavailable, link: str) -> Mapping[Acl, Owner]:
    """ACLs that fences of other links share; none if ACLs cannot be listed."""
    return {} if isinstance(present, Unavailable) else rules_of_other_links(present.rules, link)


def _rule(rule: Acl) -> str:
    return f"{rule.principal} {rule.operation} {rule.on}"


FENCE_PRODUCERS = Fence("fence-producers", Trait.CHANGES | Trait.FENCES_WRITES, Denied.WRITE)
FENCE_CONSUMERS = Fence("fence-consumers", Trait.CHANGES, Denied.READ)


_WHY = "the recovered cluster stays fenced until the failback has completed"


S = TypeVar("S", bound=FenceSettings)
I = TypeVar("I", bound=FenceIntent)  # noqa: E741


@dataclass(frozen=True, slots=True)
class FencedRecovered(OppositeDirection[S, I, FenceFacts]):
    """A fence of the plan's target; `reverse` names the connectors that write to it."""

    @property
    def traits(self) -> Trait:
        """The traits that the ordering rules read."""
        return self.kind.traits | Trait.OPPOSITE_DIRECTION | Trait.IRREVERSIBLE

    def describe(self, settings: S) -> Description:
        """Describe the step for plans and reports."""
        return replace(self.kind.describe(settings), rollback=f"none: {_WHY}", clients="")

    def verify(self, intent: I, reader: LinkReader) -> Readback[FenceFacts]:
        """Verify the fence, and stable end offsets unless replication writes to the cluster."""
        still = _still(intent, reader)
        asked = replace(intent, topics=_watched(intent, reader) if still else ())
        seen = self.kind.verify(asked, reader.reversed())
        # Later steps must not rely on these end offsets: reverse replication advances them.
        facts = replace(seen.facts or FenceFacts(), ends={})
        return replace(seen, message=seen.message if still else _without_ends(seen), facts=facts)

    def undo(self, intent: I, writer: LinkWriter) -> tuple[str, ...]:
        """Roll back nothing: the fence stays."""
        return ()

    def verify_undo(self, intent: I, reader: LinkReader) -> Readback[FenceFacts]:
        """Report that the effect stays."""
        return Readback(State.DONE, _WHY, leaves_changes=intent.changes)


def _still(intent: FenceIntent, reader: LinkReader) -> bool:
    """Whether end offsets must be stable: only if the connectors that write there are stopped.

    Otherwise the search for missing records detects records that were written meanwhile.
    """
    if not intent.reverse:
        return False
    try:
        states = [reader.connectors().state(name).state for name in intent.reverse]
    except DrctlError:
        return True
    return all(state == STOPPED for state in states)


def _watched(intent: FenceIntent, reader: LinkReader) -> tuple[str, ...]:
    """The topics whose end offsets must be stable; in a rebuild, some may not exist yet."""
    if not intent.rebuild:
        return intent.topics
    there = reader.cluster_reader(intent.cluster).topic_names()
    return tuple(topic for topic in intent.topics if topic in there)


def _without_ends(seen: Readback[FenceFacts]) -> str:
    """The message of a proof without end offsets."""
    if seen.state is not State.DONE:
        return seen.message
    return f"{seen.message.partition(';')[0]}; reverse replication adds new records meanwhile"


FENCE_RECOVERED = FencedRecovered(replace(FENCE_PRODUCERS, restores_all=True), "fence-recovered")
COMMAND_FENCE_RECOVERED = FencedRecovered(COMMAND_FENCE, "command-fence-recovered")
MANUAL_FENCE_RECOVERED = FencedRecovered(MANUAL_FENCE, "manual-fence-recovered")


def fenced_ends(facts: Facts) -> Mapping[str, int]:
    """The end offsets of partitions when they were fenced; empty if no fence was proven."""
    found: dict[str, int] = {}
    for fence in (FENCE_PRODUCERS, COMMAND_FENCE, MANUAL_FENCE):
        proven = facts.of(fence)
        for place, end in proven.ends.items() if proven else ():
            found[place] = max(end, found.get(place, 0))
    return found
