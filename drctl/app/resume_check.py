"""Checks that a resumed run does only what this host's drctl.yaml allows.

Anyone who can write to `__drctl_journal` can add a run, or entries of a run, and `drctl resume`
executes what it reads: commands, ACLs, offsets, connectors, endpoints. Therefore every step is
checked against the configuration of the host that resumes. So is every intent: its `apply` and
`undo` are called with a writer that changes nothing and checks its arguments. That covers every
kind of step, including new ones.

Values that only the journal has are trusted if every line is signed (`journal.key`). Otherwise a
rollback does not write the previous values, but leaves them to a person; see `permitted_kinds`.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from drctl.app import run_adapters
from drctl.app.connect_adapters import WorkersLink
from drctl.app.plan_inputs import connector_names, source_connector_names
from drctl.config.endpoints import DnsEndpoint, EndpointConfig, HaproxyEndpoint
from drctl.config.reverse_link import name_of, reversed_link
from drctl.engine.abandoning import MALFORMED
from drctl.engine.failback_state import ReconcileRequest, is_own_change
from drctl.engine.kind import Kind
from drctl.engine.ports import CommandResult, LinkWriter
from drctl.engine.run_state import Effect, RunState
from drctl.model.endpoints import EndpointState
from drctl.model.errors import ConfigError, DrctlError, Refused
from drctl.model.fencing import PREFIXED, PROBE_TOPIC, may_be_of_a_fence
from drctl.model.health import BlockingTransaction
from drctl.model.plan import Json, Step
from drctl.model.repairs import GROUP, TOPIC, Acl, TopicShape
from drctl.model.survey import Limit
from drctl.model.text import quote
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.typed_json import read_as, to_json
from drctl.runbook.allowlist import allowlist_of
from drctl.runbook.reading import find
from drctl.runbook.values import could_be
from drctl.steps.apply_offsets import ApplyOffsets, ApplySettings
from drctl.steps.quotas import QuotaChange, SetQuotas
from drctl.steps.registry import KINDS
from drctl.steps.repair_changes import Change, changes_in, changes_of
from drctl.steps.repairs import (
    AclChange,
    AddAcls,
    ConfigureTopics,
    PartitionsChange,
    SettingChange,
    topics_of,
)
from drctl.steps.reversed import Irreversible
from drctl.steps.switch_endpoint import SwitchEndpoint, SwitchIntent, SwitchSettings

if TYPE_CHECKING:
    from drctl.app.link_reader import ClusterLinkReader
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.runbook.allowlist import Allowlist

_SHOWN = 20
_CLUSTERS = ("cluster", "source", "target")
_COMMANDS = ("argv", "verify", "undo")
_UNPROVEN = (
    "the previous values are only in a journal that is not signed (journal.key): drctl does not"
    " restore them; roll back by hand"
)


@dataclass(frozen=True, slots=True)
class RunbookNames:
    """Names in a runbook in addition to drctl.yaml; a parameter matches any text.

    Attributes:
        envs: the environments of its commands.
    """

    principals: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    envs: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Permitted:
    """What a run over a link may change.

    Attributes:
        links: the names of the link in plans.
        commands: the commands configured for the link.
        carries: whether a topic, by its name on either cluster, belongs to the link.
        runbook: the names in the plan's runbook, if this host has the same one.
        signed: whether every line of the journal is signed.
        every_connector: whether all connectors of the workers are allowed.
    """

    links: frozenset[str]
    clusters: frozenset[str]
    principals: frozenset[str]
    connectors: frozenset[str]
    endpoints: tuple[EndpointConfig, ...]
    commands: frozenset[tuple[str, ...]]
    allowlist: "Allowlist"
    carries: Callable[[str], bool]
    carries_group: Callable[[str], bool]
    runbook: RunbookNames
    signed: bool
    every_connector: bool = False

    def knows_principal(self, name: object) -> bool:
        """Whether the fence may be for this principal."""
        return self.signed or _known(name, self.principals, self.runbook.principals)

    def knows_connector(self, name: object) -> bool:
        """Whether the run may change this connector."""
        trusted = self.signed or self.every_connector
        return trusted or _known(name, self.connectors, self.runbook.connectors)


def permitted(config: "Config", link: "Link", state: RunState) -> Permitted:
    """What this host's drctl.yaml allows a run over the link to change."""
    settings, replicator = link.settings, link.settings.replicator
    directions = [link]
    # Without a reverse direction no step may change its connectors.
    with suppress(ConfigError):
        directions.append(reversed_link(link, map(config.link, config.links)))
    runbook = _runbook(config, state)
    own = (
        settings.fence.command,
        settings.fence.undo,
        settings.fence.verify,
        replicator.stop,
        replicator.start,
        replicator.stopped,
    )

    def carries(topic: str) -> bool:
        origin = link.source_topic(topic)
        return link.carries(topic) or (origin is not None and link.carries(origin))

    return Permitted(
        frozenset({link.name, name_of(link)}),
        frozenset({link.source, link.target}),
        frozenset(settings.fence.principals),
        frozenset(name for each in directions for name in connector_names(each))
        | source_connector_names(link),
        settings.endpoints,
        frozenset(tuple(argv) for argv in own if argv),
        allowlist_of(config),
        carries,
        link.carries_group,
        runbook,
        signed=link.journal_key is not None,
        every_connector=isinstance(link, WorkersLink),
    )


def require_permitted(config: "Config", link: "Link", state: RunState) -> Permitted:
    """Check that this host's configuration allows everything that the run does or would do.

    Returns:
        What it allows.

    Raises:
        Refused: something is not allowed; the message lists the steps and intents.
    """
    allowed = permitted(config, link, state)
    found = list(dict.fromkeys(not_permitted(state, allowed)))
    if not found:
        return allowed
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    raise Refused(
        f"run {state.run} has steps that {config.path.name} on this host does not allow:"
        f" {'; '.join((*found[:_SHOWN], *more))}",
        "resume it with the drctl.yaml and runbook that it was started with. If you did, another"
        " user wrote to the journal: check who can write to __drctl_journal, then"
        f" `drctl resume {quote(state.run)} --abandon REASON`",
    )


def not_permitted(state: RunState, allowed: Permitted) -> Iterator[str]:
    """Everything that the run does or would do and that is not allowed, in words."""
    if state.plan.link not in allowed.links:
        yield f"the plan belongs to link {state.plan.link!r}"
    for step in state.plan.steps:
        yield from _at(f"step {step.id}", partial(_settings, step, allowed))
    for effect in state.effects:
        where = f"the intent of step {effect.step}"
        yield from _at(where, partial(_intent, state, effect, allowed))


def require_differences(state: RunState, allowed: Permitted, reader: "ClusterLinkReader") -> None:
    """Check that each change of a repair is a current difference, or has already been made.

    The configuration does not contain these changes, so an unsigned journal is compared with the
    clusters.

    Raises:
        Refused: something else would be changed.
        Unreachable: a cluster did not answer.
    """
    from drctl.app.repairs import RepairReader, look_at

    changes = _changes(state)
    if allowed.signed or not changes:
        return
    if not isinstance(reader, RepairReader):
        raise Refused(
            f"plan {state.plan.name} of run {state.run} has steps that only doctor-fix may have",
            "another user wrote to the journal: check who can write to __drctl_journal, then"
            f" `drctl resume {quote(state.run)} --abandon REASON`",
        )
    fixes, target = look_at(reader).fixes, reader.link.target
    rules = {fix.change for fix in fixes.rules}
    wanted = {(f.change.topic, f.change.key, f.change.after) for f in fixes.settings}
    counts = {(f.change.topic, f.change.total) for f in fixes.partitions}
    made = {fix.change.name: fix.change for fix in fixes.topics}
    limits = {(fix.change.entity, fix.change.key, fix.change.to) for fix in fixes.quotas}
    quotas = reader.quotas(target).quotas()
    found = reader.acls(target).acls()
    existing = frozenset() if isinstance(found, Unavailable) else frozenset(found.rules)

    topics = topics_of(
        change for change in changes if not isinstance(change, AclChange | QuotaChange)
    )
    shapes = reader.shapes(target).shapes(sorted(topics)) if topics else {}

    def is_difference(change: Change) -> bool:
        if isinstance(change, AclChange):
            return change.acl in rules | existing
        if isinstance(change, QuotaChange):
            known = {} if isinstance(quotas, Unavailable) else quotas.get(change.entity, {})
            done = known.get(change.key) == change.to
            return done or (change.entity, change.key, change.to) in limits
        shape = shapes.get(change.topic)
        has = shape if isinstance(shape, TopicShape) else None
        if isinstance(change, SettingChange):
            now = has.settings.get(change.key) if has else None
            done = now is not None and now.value == change.to
            return done or (change.topic, change.key, change.to) in wanted
        if isinstance(change, PartitionsChange):
            done = has is not None and has.partitions >= change.to
            return done or (change.topic, change.to) in counts
        new = made.get(change.topic)
        stated = (change.partitions, change.replicas, dict(change.config))
        return has is not None or (
            new is not None and stated == (new.partitions, new.replicas, dict(new.config))
        )

    wrong = [str(to_json(change)) for change in changes if not is_difference(change)]
    if wrong:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise Refused(
            f"run {state.run} has changes that are not needed: in these, {target} does not differ"
            f" from {reader.link.source} now: {'; '.join((*wrong[:_SHOWN], *more))}",
            f"`drctl resume {quote(state.run)} --abandon REASON`; then `drctl doctor --fix` to plan"
            " the current differences",
        )


def _changes(state: RunState) -> tuple[Change, ...]:
    """The changes in the plan and the intents of a repair."""
    found = [*changes_of(state.plan.steps)]
    for effect in state.effects:
        found += changes_in(state.plan.step(effect.step).kind, effect.intent)
    return tuple(found)


def permitted_kinds(state: RunState, allowed: Permitted) -> Mapping[str, Kind]:
    """The kinds of steps for a run that is resumed.

    A rollback restores previous values. A step whose previous values are only in an unsigned
    journal, and not in the configuration, is not rolled back, and the report names it.
    """
    if allowed.signed:
        return KINDS
    unproven = {AddAcls.name, SetQuotas.name, ConfigureTopics.name}
    for effect in state.effects:
        if state.plan.step(effect.step).kind == SwitchEndpoint.name and _foreign(
            read_as(SwitchIntent, effect.intent), allowed
        ):
            unproven.add(SwitchEndpoint.name)
    return {
        name: Kind(Irreversible(kind.kind, name, _UNPROVEN)) if name in unproven else kind
        for name, kind in KINDS.items()
    }


def _runbook(config: "Config", state: RunState) -> RunbookNames:
    """The names in the plan's runbook, if this host has an identical file."""
    plan = state.plan
    fingerprint = plan.basis.get(f"runbook {plan.name}")
    if fingerprint is None:
        return RunbookNames()
    try:
        runbook = find(plan.name, config.runbooks)
    except DrctlError:
        return RunbookNames()
    if runbook.fingerprint != fingerprint:
        return RunbookNames()
    given = [each.command or each.with_ for each in runbook.file.steps]
    settings = [each for each in given if isinstance(each, Mapping)]
    return RunbookNames(
        _values(settings, "principals"),
        _values(settings, "connectors"),
        tuple(each["env"] for each in settings if isinstance(each.get("env"), Mapping)),
    )


def _values(settings: Iterable[Mapping[str, Any]], key: str) -> tuple[str, ...]:
    """All values of a key; a reference to a parameter counts as one value, even for a list."""
    found = (each.get(key, ()) for each in settings)
    return tuple(name for each in found for name in ((each,) if isinstance(each, str) else each))


def _known(name: object, names: Collection[str], templates: Iterable[str]) -> bool:
    return name in names or (
        isinstance(name, str) and any(could_be(each, name) for each in templates)
    )


def _fits(env: Mapping[str, str], templates: Mapping[str, Any]) -> bool:
    return env.keys() == templates.keys() and all(
        could_be(str(templates[name]), value) for name, value in env.items()
    )


def _at(where: str, found: Callable[[], Iterable[str]]) -> Iterator[str]:
    try:
        yield from (f"{where}: {each}" for each in found())
    except MALFORMED as error:
        yield f"{where}: not in the format that drctl writes ({error!r})"


def _settings(step: Step, allowed: Permitted) -> Iterator[str]:
    yield from _names(step.kind, step.settings, allowed)
    if step.kind == SwitchEndpoint.name:
        switch = read_as(SwitchSettings, step.settings)
        number = switch.number
        if _is_index(number, allowed) and switch.kind != allowed.endpoints[number].kind:
            yield f"endpoint {number + 1} is not a {switch.kind}"
    if step.kind == ApplyOffsets.name:
        # The offsets to commit are derived from these settings again.
        for row in read_as(ApplySettings, step.settings).rows:
            group, topic = row.wanted.group, row.wanted.partition.topic
            if not allowed.carries_group(group):
                yield _foreign_group(group)
            if not allowed.carries(topic):
                yield _not_carried(topic)
    for change in changes_of([step]):
        if isinstance(change, QuotaChange):
            continue  # Not of the link: `require_differences` compares it with the source.
        acl = change.acl if isinstance(change, AclChange) else None
        topic = change.acl.name if isinstance(change, AclChange) else change.topic
        if not _is_about(topic, acl, allowed):
            yield _not_carried(topic)


def _intent(state: RunState, effect: Effect, allowed: Permitted) -> Iterator[str]:
    step = state.plan.step(effect.step)
    kind, values = KINDS[step.kind].kind, effect.intent
    yield from _names(step.kind, values, allowed)
    for key in (*_COMMANDS, "env", "timeout_seconds"):
        if "argv" in values and values.get(key) != step.settings.get(key):
            yield f"{key} does not match its step"
    intent, writer = kind.read_intent(values), _Rehearsal(allowed)
    kind.apply(intent, cast(LinkWriter, writer))
    kind.undo(intent, cast(LinkWriter, writer))
    yield from writer.found


def _names(kind: str, values: Json, allowed: Permitted) -> Iterator[str]:
    """Check the names of systems in settings and intents."""
    for key in _CLUSTERS:
        if key in values and values[key] not in allowed.clusters:
            yield _no("cluster", values[key])
    for name in values.get("clusters", ()):
        if name not in allowed.clusters:
            yield _no("cluster", name)
    if kind == SwitchEndpoint.name and values["to"] not in allowed.clusters:
        yield _no("cluster", values["to"])
    if "link" in values and values["link"] not in allowed.links:
        yield _no("link", values["link"])
    for name in values.get("principals", ()):
        if not allowed.knows_principal(name):
            yield _no("principal of the fence", name)
    one = [values["connector"]] if values.get("connector") else []
    for name in (*one, *values.get("connectors", ()), *values.get("reverse", ())):
        yield from _connector(name, allowed)
    numbers = [values["number"]] if "number" in values else []
    for number in (*numbers, *values.get("probed_endpoints", ())):
        if not _is_index(number, allowed):
            yield _no("endpoint", number)
    if "argv" in values:
        yield from _commands(values, allowed)


def _commands(values: Json, allowed: Permitted) -> Iterator[str]:
    env = values["env"]
    if not (isinstance(env, Mapping) and all(isinstance(each, str) for each in env.values())):
        raise TypeError("env")
    for key in _COMMANDS:
        argv = values[key]
        if not (isinstance(argv, list) and all(isinstance(word, str) for word in argv)):
            raise TypeError(key)
        yield from _command(argv, env, allowed) if argv or key == "argv" else ()


def _command(argv: Sequence[str], env: Mapping[str, str], allowed: Permitted) -> Iterator[str]:
    """Check a command and its environment: LD_PRELOAD, PATH or files change what it does."""
    words = shlex.join(argv)
    if not argv or not (tuple(argv) in allowed.commands or allowed.allowlist.allows(argv)):
        yield f"`{words}` is not among `commands` and not configured for the link"
    if env and not allowed.signed and not any(_fits(env, each) for each in allowed.runbook.envs):
        yield f"`{words}` has an environment that no runbook on this host sets"


def _connector(name: object, allowed: Permitted) -> Iterator[str]:
    if not allowed.knows_connector(name):
        yield _no("connector", name)


def _is_index(number: object, allowed: Permitted) -> bool:
    known = range(len(allowed.endpoints))
    return isinstance(number, int) and not isinstance(number, bool) and number in known


def _is_about(topic: str, acl: Acl | None, allowed: Permitted) -> bool:
    """Whether a topic belongs to the link.

    An ACL for a prefix of names, or for another resource, also counts: `require_differences`
    compares it with the clusters.
    """
    return allowed.carries(topic) or (
        acl is not None and (acl.pattern == PREFIXED or acl.resource != TOPIC)
    )


def _not_carried(topic: str) -> str:
    return f"topic {topic!r} does not belong to the link"


def _foreign_group(name: str) -> str:
    return f"group {name!r} does not belong to the link"


def _foreign(intent: SwitchIntent, allowed: Permitted) -> bool:
    """Whether an endpoint previously pointed to none of the clusters in drctl.yaml."""
    endpoint, before = allowed.endpoints[intent.number], intent.before
    if before.cluster is None:
        return True
    if isinstance(endpoint, DnsEndpoint | HaproxyEndpoint):
        return run_adapters.cluster_by_evidence(endpoint, before) != before.cluster
    return before.cluster not in allowed.clusters


def _no(what: str, name: object) -> str:
    return f"{name!r} is not a {what} of the link"


@dataclass(slots=True)
class _Rehearsal:
    """Implements `LinkWriter`: changes nothing, and lists the requests that are not allowed."""

    allowed: Permitted
    found: list[str] = field(default_factory=list)

    def groups(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def group_creator(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def producer_ids(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def transactions(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def acls(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def rules(self, name: str) -> "_Rules":
        return _Rules(self._cluster(name))

    def shapes(self, name: str) -> "_Shapes":
        return _Shapes(self._cluster(name))

    def quotas(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def workers(self) -> "_Connectors":
        return _Connectors(self)

    def source_workers(self, name: str) -> "_Connectors":
        self._cluster(name)
        return _Connectors(self)

    def elections(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def connectors(self) -> "_Connectors":
        return _Connectors(self)

    def endpoint(self, number: int) -> "_Endpoint":
        self.require(_is_index(number, self.allowed), _no("endpoint", number))
        return _Endpoint(self)

    def probe_record(self, name: str, endpoint: int | None = None) -> "_Cluster":
        self.require(
            endpoint is None or _is_index(endpoint, self.allowed), _no("endpoint", endpoint)
        )
        return self._cluster(name)

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        self.found += _command(argv, env, self.allowed)
        self.require(isinstance(timeout_s, int | float), "its timeout is not a number")
        return CommandResult(0)

    def save_evidence(self, name: str, document: object) -> None:
        self.require(bool(re.fullmatch(r"[\w-][\w.-]*", name)), f"{name!r} is not a file of a run")

    def reversed(self) -> "_Rehearsal":
        return self

    def reconcile(self, request: ReconcileRequest) -> None:
        """Allowed with any folder: if it has no result of a search, the search is repeated."""

    def _cluster(self, name: str) -> "_Cluster":
        self.require(name in self.allowed.clusters, _no("cluster", name))
        return _Cluster(self)

    def require(self, condition: bool, words: str) -> None:
        if not condition:
            self.found.append(words)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """All requests to a cluster except those about ACL rules and topics."""

    writer: _Rehearsal

    def commit(self, wanted: Mapping[str, Iterable[TopicPartition]]) -> Mapping[str, Any]:
        for group, places in wanted.items():
            self._group(group)
            for place in places:
                self.topic(place.topic)
        return {}

    delete = commit

    def create(self, names: Collection[str]) -> Mapping[str, Any]:
        for name in names:
            self._group(name)
        return {}

    def elect(self, kind: object, places: Collection[TopicPartition]) -> Mapping[str, Any]:
        """Allowed: the current state of the cluster decides which leaders are elected."""
        return {}

    def advance(self, beyond: int) -> Mapping[int, Any]:
        self.writer.require(isinstance(beyond, int), "its target is not a producer id")
        return {}

    def abort(self, transactions: Collection[BlockingTransaction]) -> Mapping[Any, Any]:
        """Allowed in the link's topics; only transactions that are still open are aborted."""
        for each in transactions:
            self.topic(each.topic)
        return {}

    def set_quotas(self, limits: Collection[Limit]) -> Mapping[Limit, Any]:
        """Allowed: `require_differences` compares the limits with those of the source."""
        return {}

    def write_probe(self, topic: str, text: str) -> None:
        """Allowed: the topic of the probe record is drctl's own."""

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Any]:
        """A fence denies only the link's principals, topics and groups, in either direction."""
        allowed = self.writer.allowed
        for rule in rules:
            known = allowed.knows_principal(rule.principal) and may_be_of_a_fence(rule)
            text = f"{rule.permission} {rule.operation} on {rule.on} to {rule.principal}"
            self.writer.require(known, f"{text} is not an ACL of the link's fence")
            if rule.resource == GROUP:
                self._group(rule.name)
            elif rule.name != PROBE_TOPIC:
                self.topic(rule.name)
        return {}

    restore = deny

    def topic(self, name: str) -> None:
        self.writer.require(self.writer.allowed.carries(name), _not_carried(name))

    def _group(self, name: str) -> None:
        self.writer.require(self.writer.allowed.carries_group(name), _foreign_group(name))


@dataclass(frozen=True, slots=True)
class _Rules:
    """ACL rules of a repair."""

    cluster: _Cluster

    def add(self, rules: Collection[Acl]) -> Mapping[Acl, Any]:
        allowed = self.cluster.writer.allowed
        for rule in rules:
            self.cluster.writer.require(
                _is_about(rule.name, rule, allowed), _not_carried(rule.name)
            )
        return {}

    remove = add


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Topics of a repair."""

    cluster: _Cluster

    def create(self, topics: Collection[Any]) -> Mapping[str, Any]:
        return self._each(each.name for each in topics)

    def extend(self, totals: Mapping[str, int]) -> Mapping[str, Any]:
        return self._each(totals)

    def configure(self, changes: Collection[Any]) -> Mapping[str, Any]:
        return self._each(each.topic for each in changes)

    def _each(self, topics: Iterable[str]) -> Mapping[str, Any]:
        for topic in topics:
            self.cluster.topic(topic)
        return {}


@dataclass(frozen=True, slots=True)
class _Connectors:
    writer: _Rehearsal

    def stop(self, name: str) -> None:
        self.writer.found += _connector(name, self.writer.allowed)

    pause = resume = restart = delete_positions = stop

    def copy(self, name: str, to: str) -> None:
        self.stop(name)

    def put_positions(self, name: str, positions: object) -> None:
        """Only the plugin knows what a source position refers to."""
        self.stop(name)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Only the filter of drctl's copies may be changed."""
        self.stop(name)
        for key, value in changes.items():
            own = is_own_change(key, value)
            self.writer.require(own, f"{key} of {name} is not a key that drctl sets")

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        self.stop(name)
        for each in offsets:
            _Cluster(self.writer).topic(each["partition"]["topic"])


@dataclass(frozen=True, slots=True)
class _Endpoint:
    writer: _Rehearsal

    def switch(self, to: str, before: EndpointState) -> None:
        self.writer.require(to in self.writer.allowed.clusters, _no("cluster", to))

    def restore(self, before: EndpointState) -> None:
        """`permitted_kinds` checks the state that a rollback restores."""
