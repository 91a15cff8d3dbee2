"""Prepares the link's KIP-848 groups on the target: their members fail if the group does not exist.

Committing offsets does not create such a group: see `drctl.model.groups`.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic

from drctl.engine.kind import (
    BothClusters,
    Description,
    Facts,
    Polling,
    Readback,
    State,
    StepKind,
    Trait,
)
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Unreachable
from drctl.model.groups import Group, GroupProtocol, GroupState
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.steps.fences import FENCE_CONSUMERS, fenced_ends

BATCH = 250
"""Groups per request."""

RESTART = "restart KIP-848 group members that fail when they are moved"

Groups = Mapping[str, Group | Unavailable]


@dataclass(frozen=True, slots=True)
class PrepareIntent:
    """The groups to create.

    Attributes:
        ready: how many exist already.
        left: groups that cannot be prepared, each with the reason.
        silent: why the source did not respond; empty if it did.
        unknown: groups of the target that may be KIP-848 groups, if the source did not respond.
    """

    source: str
    target: str
    create: tuple[str, ...]
    ready: int
    left: tuple[str, ...]
    silent: str
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrepareFacts:
    """How many groups were created, and how many existed; why the source did not respond."""

    created: int
    ready: int
    silent: str


class PrepareGroups(StepKind[BothClusters, PrepareIntent, PrepareFacts]):
    """Creates missing groups as empty groups; groups that exist are left alone."""

    name = "prepare-groups"
    traits = Trait.CHANGES | Trait.PREPARES_GROUPS

    def describe(self, settings: BothClusters) -> Description:
        """Describe the step for plans and reports."""
        source, target = settings.source, settings.target
        return Description(
            f"prepare the KIP-848 groups of {source} on {target}",
            f"{target} describes each as a group of that protocol",
            "none is needed: Kafka deletes empty groups without offsets",
        )

    def check(self, settings: BothClusters, facts: Facts, reader: LinkReader) -> PrepareIntent:
        """Find the groups to create.

        Raises:
            Unreachable: the target did not respond.
        """
        source, target = settings.source, settings.target
        try:
            known = _groups(source, reader)
        except Unreachable as error:
            # A group that has only offsets does not show which protocol it uses.
            there = _groups(target, reader)
            ready, silent = sum(map(_is_new, there.values())), error.message
            unknown = tuple(name for name, group in there.items() if not _is_new(group))
            return PrepareIntent(source, target, (), ready, (), silent, unknown)
        new = [name for name, group in known.items() if _is_new(group)]
        there = reader.groups(target).described(new) if new else {}
        return PrepareIntent(
            source,
            target,
            tuple(name for name in new if _can_be_made(there[name])),
            sum(_is_new(each) for each in there.values()),
            (*_unavailable(known), *_blocked(there, target)),
            silent="",
            unknown=(),
        )

    def apply(self, intent: PrepareIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Create the groups."""
        names = intent.create
        if not names:
            return ()
        creator, errors = writer.group_creator(intent.target), []
        for start in range(0, len(names), BATCH):
            answers = creator.create(names[start : start + BATCH])
            errors += [f"{name}: {why.reason}" for name, why in answers.items() if why]
        return tuple(errors)

    def verify(self, intent: PrepareIntent, reader: LinkReader) -> Readback[PrepareFacts]:
        """Verify which protocol the groups use on the target."""
        names, target = intent.create, intent.target
        described = reader.groups(target).described(names) if names else {}
        others = tuple(
            f"{name}: {_protocol_of(described[name])}"
            for name in names
            if not _is_new(described[name])
        )
        if others:
            message = f"groups not ready on {target}: {len(others)} of {len(names)}; {others[0]}"
            return Readback(State.WAITING, f"{message}; {RESTART}", items=others)
        message = (
            f"{plural(len(names) + intent.ready, 'KIP-848 group')} ready on {target},"
            f" {len(names)} of them new"
        )
        facts = PrepareFacts(len(names), intent.ready, intent.silent)
        return Readback(
            State.DONE, message, facts, (*intent.left, *intent.unknown), _outstanding(intent)
        )

    def undo(self, intent: PrepareIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Roll back nothing: the groups are empty."""
        return ()

    def verify_undo(self, intent: PrepareIntent, reader: LinkReader) -> Readback[PrepareFacts]:
        """Report that Kafka deletes the groups."""
        return Readback(State.DONE, "Kafka deletes empty groups without offsets")


def _groups(cluster: str, reader: LinkReader) -> Groups:
    """The link's groups on one cluster; those without a coordinator are left out.

    Raises:
        Unreachable: the cluster did not respond.
    """
    names = reader.link_groups(cluster, incomplete=True)
    return reader.groups(cluster).described(names)


def _is_new(group: Group | Unavailable) -> bool:
    return isinstance(group, Group) and group.protocol is GroupProtocol.CONSUMER


def _can_be_made(group: Group | Unavailable) -> bool:
    # Joining an active group would make it rebalance, or change its protocol.
    return isinstance(group, Group) and not group.active and not _is_new(group)


def _unavailable(groups: Groups) -> Iterator[str]:
    return (f"{n}: {each.reason}" for n, each in groups.items() if isinstance(each, Unavailable))


def _blocked(groups: Groups, target: str) -> Iterator[str]:
    yield from _unavailable(groups)
    for name, group in groups.items():
        if isinstance(group, Group) and group.active and not _is_new(group):
            yield f"{name}: it is active on {target} with another group protocol"


def _protocol_of(group: Group | Unavailable) -> str:
    if isinstance(group, Unavailable):
        return group.reason
    return "it does not exist" if group.state is GroupState.DEAD else group.protocol.value


def _outstanding(intent: PrepareIntent) -> str:
    left, unknown = intent.left, intent.unknown
    if intent.silent:
        reason = f"it is unknown which groups of {intent.source} use the KIP-848 protocol"
        others = f" ({plural(len(unknown), 'group')} of {intent.target} may)" if unknown else ""
        return f"{RESTART}; {reason}{others}: {intent.silent}"
    return (
        f"{RESTART}; {plural(len(left), 'group')} could not be prepared: {left[0]}" if left else ""
    )


Rows = list[tuple[str, str, int, int]]
"""Group, topic, partition and committed offset."""

_STABLE_S = 6.0
"""Offsets unchanged for this long count as stable: clients commit every 5 s by default."""


@dataclass(frozen=True, slots=True)
class QuiesceSettings:
    """Settings from the plan.

    Attributes:
        drain_window: whether consumers may still finish: reads are not fenced yet.
        translate_ahead: whether to translate offsets in the background meanwhile.
    """

    cluster: str
    drain_window: bool = False
    translate_ahead: bool = False


@dataclass(frozen=True, slots=True)
class QuiesceIntent:
    """The state of the groups before.

    Attributes:
        fenced: whether reads are fenced.
        digest: digest of the committed offsets.
        ends: the fenced end offsets; None outside the drain window.
    """

    cluster: str
    fenced: bool
    digest: str
    ends: Mapping[str, int] | None = None
    translate_ahead: bool = False


@dataclass(frozen=True, slots=True)
class QuiesceFacts:
    """How many groups there are, and a digest of their committed offsets."""

    groups: int
    digest: str


class Quiesce(Polling[QuiesceSettings, QuiesceIntent, QuiesceFacts]):
    """Waits until groups are empty or, once reads are fenced, until their offsets are stable.

    In the drain window it is enough that waiting longer would not help: every group has committed
    up to the fenced end offsets, or no committed offset has changed for a few seconds.
    """

    name = "quiesce-consumers"
    traits = Trait.QUIESCES

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._unmoved: dict[str, tuple[str, float]] = {}
        self._last: tuple[str, Rows] = ("", [])

    def describe(self, settings: QuiesceSettings) -> Description:
        """Describe the step for plans and reports."""
        if settings.drain_window:
            title = f"wait for consumers to read {settings.cluster} up to its end offsets"
            proof = "groups are empty, have committed everything, or their offsets no longer change"
            return Description(title, proof)
        title = f"wait until consumers have left {settings.cluster}"
        return Description(title, "groups are empty, or fenced with stable offsets")

    def check(self, settings: QuiesceSettings, facts: Facts, reader: LinkReader) -> QuiesceIntent:
        """Record the committed offsets of the groups."""
        cluster, before = settings.cluster, facts.of(self)
        rows = _positions(cluster, reader.link_groups(cluster), reader)
        digest = _digest(rows)
        ends = fenced_ends(facts) if settings.drain_window else None
        if settings.translate_ahead and (before is None or before.digest != digest):
            # If they are unchanged, the step before is already translating them.
            reader.translate_ahead(self._moved(before.digest, rows) if before else None)
        self._last = digest, rows
        fenced = facts.of(FENCE_CONSUMERS) is not None
        return QuiesceIntent(cluster, fenced, digest, ends, settings.translate_ahead)

    def verify(self, intent: QuiesceIntent, reader: LinkReader) -> Readback[QuiesceFacts]:
        """Verify that groups are empty, or that their offsets are stable."""
        cluster = intent.cluster
        names = reader.link_groups(cluster)
        described = reader.groups(cluster).described(names)
        active = sorted(
            name
            for name, group in described.items()
            if isinstance(group, Unavailable) or group.active
        )
        rows = _positions(cluster, names, reader)
        digest = _digest(rows)
        facts = QuiesceFacts(len(names), digest)

        def done(message: str) -> Readback[QuiesceFacts]:
            if intent.translate_ahead and digest != intent.digest:
                # The background translation may have used offsets that have changed since.
                reader.translate_ahead(self._moved(intent.digest, rows))
            self._last = digest, rows
            return Readback(State.DONE, message, facts)

        if not active:
            return done(f"0 of {len(names)} groups active")
        message = f"{len(active)} of {len(names)} groups active: {', '.join(active[:3])}"
        if intent.fenced:
            # A member that is fenced may still commit once what it has read before.
            stable = "their offsets are stable" if digest == intent.digest else ""
            if why := stable or self._why_stop_waiting(intent.digest, digest, 1):
                return done(f"{message}; their reads are fenced, and {why}")
        if intent.ends is not None:
            message = f"{message}; {_left(rows, active, intent.ends)}"
            unread = _unread(rows, active, intent.ends)
            if why := self._why_stop_waiting(intent.digest, digest, unread):
                return done(f"{message}: {why}")
        return Readback(State.WAITING, message, facts, tuple(active))

    def _moved(self, digest: str, rows: Rows) -> frozenset[str] | None:
        """The groups whose offsets differ from those of this digest; None if those are unknown."""
        last, before = self._last
        return frozenset(row[0] for row in {*before} ^ {*rows}) if last == digest else None

    def _why_stop_waiting(self, before: str, digest: str, unread: int) -> str:
        """Why waiting longer would not help; empty if it might help."""
        if not unread:
            return "waiting longer would not help"
        # Waits that started from different offsets are timed separately.
        kept, since = self._unmoved.get(before, ("", 0.0))
        if kept != digest:
            self._unmoved[before] = digest, self._clock()
            return ""
        waited = self._clock() - since
        return f"no offset has changed for {waited:.0f} s" if waited >= _STABLE_S else ""


def _unread(rows: Rows, active: list[str], ends: Mapping[str, int]) -> int:
    """Records up to the fenced end offsets that groups with members have not committed yet."""
    committed: dict[str, dict[str, dict[int, int]]] = {}
    for group, topic, partition, offset in rows:
        committed.setdefault(group, {}).setdefault(topic, {})[partition] = offset
    unread = 0
    for place, end in ends.items():
        topic, _, number = place.rpartition("-")
        for group in active:
            found = committed.get(group, {})
            # Assume that a group that consumes a topic consumes all of its partitions.
            if topic in found or not found:
                unread += max(0, end - found.get(topic, {}).get(int(number), 0))
    return unread


def _left(rows: Rows, active: list[str], ends: Mapping[str, int]) -> str:
    unread = _unread(rows, active, ends)
    return (
        f"records up to the fenced end offsets that are not committed: {unread:,}"
        if unread
        else "they have committed everything"
    )


def _positions(cluster: str, names: Collection[str], reader: LinkReader) -> Rows:
    """The committed offsets of these groups.

    Raises:
        Unreachable: the offsets of a group could not be read.
    """
    rows: Rows = []
    for name, found in reader.groups(cluster).committed(names).items():
        if isinstance(found, Unavailable):
            raise Unreachable(f"the offsets of group {name} cannot be read: {found.reason}")
        rows += [(name, *place, at.offset) for place, at in found.items()]
    return sorted(rows)


def _digest(rows: Rows) -> str:
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()
