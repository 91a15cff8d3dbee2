"""What a run out of a journal may do on this machine: what its drctl.yaml names, and nothing else.

Whoever can write `__drctl_journal` can put a run there, or an entry behind those of a real one, and
`drctl resume` carries out what it finds: commands, rules, offsets, connectors, endpoints. So every
step is held against the configuration of the machine that resumes, and so is every intent: its
`apply` and its `undo` are rehearsed with a writer that changes nothing and checks what it is asked
for. A kind of step that is added later is rehearsed like all others.

What only the journal says is believed where every line is signed (`journal.key`). Else the values
from before, which a rollback would write, are left to a person; see `held_kinds`.
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
from drctl.app.plan_inputs import connector_names
from drctl.config.endpoints import DnsEndpoint, EndpointConfig, HaproxyEndpoint
from drctl.config.reverse_link import name_of, reversed_link
from drctl.engine.abandoning import MALFORMED
from drctl.engine.failback_state import ReconcileRequest, is_own_change
from drctl.engine.kind import Kind
from drctl.engine.ports import CommandResult, LinkWriter
from drctl.engine.run_state import Effect, RunState
from drctl.model.endpoints import EndpointState
from drctl.model.errors import ConfigError, DrctlError, Refused
from drctl.model.fencing import DENY, PREFIXED, Denied
from drctl.model.plan import Json, Step
from drctl.model.repairs import Acl, TopicShape
from drctl.model.text import quote
from drctl.model.topology import TopicPartition, Unavailable
from drctl.model.typed_json import read_as, to_json
from drctl.runbook.allowlist import allowlist_of
from drctl.runbook.reading import find
from drctl.runbook.values import could_be
from drctl.steps.apply_offsets import ApplyOffsets, ApplySettings
from drctl.steps.registry import KINDS
from drctl.steps.repairs import (
    AddRules,
    Change,
    ConfigureTopics,
    PartitionsChange,
    RuleChange,
    SettingChange,
    changes_in,
    changes_of,
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
_CLUSTERS = ("cluster", "source", "target", "survivor")
_COMMANDS = ("argv", "verify", "undo")
_UNPROVEN = (
    "what was there before is known from a journal that is not signed (journal.key): drctl does not"
    " write it; roll it back by hand"
)


@dataclass(frozen=True, slots=True)
class Named:
    """What a runbook names beside drctl.yaml; a parameter of the runbook stands for any text.

    Attributes:
        envs: environments of its commands.
    """

    principals: tuple[str, ...] = ()
    connectors: tuple[str, ...] = ()
    envs: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Permitted:
    """What runs over a link may be about.

    Attributes:
        links: its names, as plans have them.
        commands: the link's own, word by word.
        carries: whether a topic, by its name on either cluster, is one of the link's.
        runbook: what the plan's runbook names, where this machine has the same one.
        signed: whether every line of the journal is.
        every_connector: whether it is about all connectors of some workers.
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
    runbook: Named
    signed: bool
    every_connector: bool = False

    def knows_principal(self, name: object) -> bool:
        """Whether the fence is about it, or what the journal says is believed."""
        return self.signed or _known(name, self.principals, self.runbook.principals)

    def knows_connector(self, name: object) -> bool:
        """Likewise, whether it copies."""
        believed = self.signed or self.every_connector
        return believed or _known(name, self.connectors, self.runbook.connectors)


def permitted(config: "Config", link: "Link", state: RunState) -> Permitted:
    """What this machine's drctl.yaml lets a run over the link do."""
    settings, replicator = link.settings, link.settings.replicator
    ways = [link]
    # Where nothing copies back no step of the run may be about that.
    with suppress(ConfigError):
        ways.append(reversed_link(link, map(config.link, config.links)))
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
        frozenset(name for each in ways for name in connector_names(each)),
        settings.endpoints,
        frozenset(tuple(argv) for argv in own if argv),
        allowlist_of(config),
        carries,
        link.carries_group,
        runbook,
        signed=link.journal_key is not None,
        every_connector=isinstance(link, WorkersLink),
    )


def must_be_permitted(config: "Config", link: "Link", state: RunState) -> None:
    """See that this machine's configuration names all that the run does, or would do.

    Raises:
        Refused: it does not; each step and intent is named.
    """
    found = list(dict.fromkeys(objections(state, permitted(config, link, state))))
    if not found:
        return
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    raise Refused(
        f"run {state.run} has steps that {config.path.name} on this host does not allow:"
        f" {'; '.join((*found[:_SHOWN], *more))}",
        "resume it with the drctl.yaml and runbook of its start. If you did, another user wrote to"
        " the journal: check who can write to __drctl_journal, then"
        f" `drctl resume {quote(state.run)} --abandon REASON`",
    )


def objections(state: RunState, allowed: Permitted) -> Iterator[str]:
    """What the run does, or would do, that is not allowed; each in words."""
    if state.plan.link not in allowed.links:
        yield f"the plan belongs to link {state.plan.link!r}"
    for step in state.plan.steps:
        yield from _told(f"step {step.id}", partial(_settings, step, allowed))
    for effect in state.effects:
        yield from _told(
            f"the intent of step {effect.step}", partial(_intent, state, effect, allowed)
        )


def must_be_differences(state: RunState, allowed: Permitted, reader: "ClusterLinkReader") -> None:
    """See that a repair changes what differs between the two clusters now, or is so already.

    What it would change is in no configuration: without a signature the clusters have to say it.

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
            f"it was written by another user: `drctl resume {quote(state.run)} --abandon REASON`",
        )
    fixes, target = look_at(reader).fixes, reader.link.target
    rules = {fix.change for fix in fixes.rules}
    wanted = {(f.change.topic, f.change.key, f.change.after) for f in fixes.settings}
    counts = {(f.change.topic, f.change.total) for f in fixes.partitions}
    made = {fix.change.name: fix.change for fix in fixes.topics}
    found = reader.acls(target).acls()
    there = frozenset() if isinstance(found, Unavailable) else frozenset(found.rules)

    topics = topics_of(change for change in changes if not isinstance(change, RuleChange))
    shapes = reader.shapes(target).shapes(sorted(topics)) if topics else {}

    def is_one(change: Change) -> bool:
        if isinstance(change, RuleChange):
            return change.rule in rules | there
        shape = shapes.get(change.topic)
        has = shape if isinstance(shape, TopicShape) else None
        if isinstance(change, SettingChange):
            now = has.settings.get(change.key) if has else None
            is_so = now is not None and now.value == change.to
            return is_so or (change.topic, change.key, change.to) in wanted
        if isinstance(change, PartitionsChange):
            is_so = has is not None and has.partitions >= change.to
            return is_so or (change.topic, change.to) in counts
        new = made.get(change.topic)
        told = (change.partitions, change.replicas, dict(change.config))
        return has is not None or (
            new is not None and told == (new.partitions, new.replicas, dict(new.config))
        )

    wrong = [str(to_json(change)) for change in changes if not is_one(change)]
    if wrong:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise Refused(
            f"run {state.run} would change what is already equal on {reader.link.source} and"
            f" {target} now: {'; '.join((*wrong[:_SHOWN], *more))}",
            f"`drctl resume {quote(state.run)} --abandon REASON`, then `drctl doctor --fix` plans"
            " what differs now",
        )


def _changes(state: RunState) -> tuple[Change, ...]:
    """What the plan and the intents of a repair would change."""
    found = [*changes_of(state.plan.steps)]
    for effect in state.effects:
        found += changes_in(state.plan.step(effect.step).kind, effect.intent)
    return tuple(found)


def held_kinds(state: RunState, allowed: Permitted) -> Mapping[str, Kind]:
    """The kinds of steps, for a run that goes on.

    A rollback writes what was there before. Where only an unsigned journal tells that, and nothing
    that is configured does, the step is left as it is and named.
    """
    if allowed.signed:
        return KINDS
    unproven = {AddRules.name, ConfigureTopics.name}
    for effect in state.effects:
        if state.plan.step(effect.step).kind == SwitchEndpoint.name and _foreign(
            read_as(SwitchIntent, effect.intent), allowed
        ):
            unproven.add(SwitchEndpoint.name)
    return {
        name: Kind(Irreversible(kind.kind, name, _UNPROVEN)) if name in unproven else kind
        for name, kind in KINDS.items()
    }


def _runbook(config: "Config", state: RunState) -> Named:
    """What the plan's runbook names, where this machine has the same one, byte for byte."""
    plan = state.plan
    fingerprint = plan.basis.get(f"runbook {plan.name}")
    if fingerprint is None:
        return Named()
    try:
        runbook = find(plan.name, config.runbooks)
    except DrctlError:
        return Named()
    if runbook.fingerprint != fingerprint:
        return Named()
    given = [each.command or each.with_ for each in runbook.file.steps]
    settings = [each for each in given if isinstance(each, Mapping)]
    return Named(
        _named(settings, "principals"),
        _named(settings, "connectors"),
        tuple(each["env"] for each in settings if isinstance(each.get("env"), Mapping)),
    )


def _named(settings: Iterable[Mapping[str, Any]], key: str) -> tuple[str, ...]:
    """What stands there, as it is written; a parameter may stand for a whole list."""
    found = (each.get(key, ()) for each in settings)
    return tuple(name for told in found for name in ((told,) if isinstance(told, str) else told))


def _known(name: object, names: Collection[str], written: Iterable[str]) -> bool:
    return name in names or (
        isinstance(name, str) and any(could_be(each, name) for each in written)
    )


def _fits(env: Mapping[str, str], written: Mapping[str, Any]) -> bool:
    return env.keys() == written.keys() and all(
        could_be(str(written[name]), value) for name, value in env.items()
    )


def _told(where: str, found: Callable[[], Iterable[str]]) -> Iterator[str]:
    try:
        yield from (f"{where}: {each}" for each in found())
    except MALFORMED as wrong:
        yield f"{where}: not in the format that drctl writes ({wrong!r})"


def _settings(step: Step, allowed: Permitted) -> Iterator[str]:
    yield from _names(step.kind, step.settings, allowed)
    if step.kind == SwitchEndpoint.name:
        switch = read_as(SwitchSettings, step.settings)
        number = switch.number
        if _is_index(number, allowed) and switch.kind != allowed.endpoints[number].kind:
            yield f"endpoint {number + 1} is not a {switch.kind}"
    if step.kind == ApplyOffsets.name:
        # What is committed is decided again, from these.
        for row in read_as(ApplySettings, step.settings).rows:
            group, topic = row.wanted.group, row.wanted.partition.topic
            if not allowed.carries_group(group):
                yield _foreign_group(group)
            if not allowed.carries(topic):
                yield _not_carried(topic)
    for change in changes_of([step]):
        rule = change.rule if isinstance(change, RuleChange) else None
        topic = change.rule.name if isinstance(change, RuleChange) else change.topic
        if not _is_about(topic, rule, allowed):
            yield _not_carried(topic)


def _intent(state: RunState, effect: Effect, allowed: Permitted) -> Iterator[str]:
    step = state.plan.step(effect.step)
    kind, intent = KINDS[step.kind], effect.intent
    yield from _names(step.kind, intent, allowed)
    for key in (*_COMMANDS, "env", "timeout_seconds"):
        if "argv" in intent and intent.get(key) != step.settings.get(key):
            yield f"{key} does not match its step"
    writer = _Rehearsal(allowed)
    kind.apply(intent, cast(LinkWriter, writer))
    kind.undo(intent, cast(LinkWriter, writer))
    yield from writer.found


def _names(kind: str, told: Json, allowed: Permitted) -> Iterator[str]:
    """Names of what is outside, wherever they stand in settings and intents."""
    for key in _CLUSTERS:
        if key in told and told[key] not in allowed.clusters:
            yield _no("cluster", told[key])
    for name in told.get("clusters", ()):
        if name not in allowed.clusters:
            yield _no("cluster", name)
    if kind == SwitchEndpoint.name and told["to"] not in allowed.clusters:
        yield _no("cluster", told["to"])
    if "link" in told and told["link"] not in allowed.links:
        yield _no("link", told["link"])
    for name in told.get("principals", ()):
        if not allowed.knows_principal(name):
            yield _no("principal of the fence", name)
    one = [told["connector"]] if told.get("connector") else []
    for name in (*one, *told.get("connectors", ()), *told.get("reverse", ())):
        yield from _connector(name, allowed)
    numbers = [told["number"]] if "number" in told else []
    for number in (*numbers, *told.get("probed_endpoints", ())):
        if not _is_index(number, allowed):
            yield _no("endpoint", number)
    if "argv" in told:
        yield from _commands(told, allowed)


def _commands(told: Json, allowed: Permitted) -> Iterator[str]:
    env = told["env"]
    if not (isinstance(env, Mapping) and all(isinstance(each, str) for each in env.values())):
        raise TypeError("env")
    for key in _COMMANDS:
        argv = told[key]
        if not (isinstance(argv, list) and all(isinstance(word, str) for word in argv)):
            raise TypeError(key)
        yield from _command(argv, env, allowed) if argv or key == "argv" else ()


def _command(argv: Sequence[str], env: Mapping[str, str], allowed: Permitted) -> Iterator[str]:
    """An environment decides what a command does, too: LD_PRELOAD, PATH, files it is handed."""
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


def _is_about(topic: str, rule: Acl | None, allowed: Permitted) -> bool:
    """Whether it is a topic of the link.

    A rule may be about a beginning of names: `must_be_differences` holds it against the clusters.
    """
    return allowed.carries(topic) or (rule is not None and rule.pattern == PREFIXED)


def _not_carried(topic: str) -> str:
    return f"topic {topic!r} does not belong to the link"


def _foreign_group(name: str) -> str:
    return f"group {name!r} does not belong to the link"


def _foreign(intent: SwitchIntent, allowed: Permitted) -> bool:
    """Whether what an endpoint was before is not what drctl.yaml says of any cluster."""
    endpoint, before = allowed.endpoints[intent.number], intent.before
    if before.cluster is None:
        return True
    if isinstance(endpoint, DnsEndpoint | HaproxyEndpoint):
        return run_adapters.cluster_by_evidence(endpoint, before) != before.cluster
    return before.cluster not in allowed.clusters


def _no(what: str, name: object) -> str:
    return f"{name!r} is not a {what} of it"


@dataclass(slots=True)
class _Rehearsal:
    """Implements `LinkWriter`: changes nothing, and lists what was asked for and is not allowed."""

    allowed: Permitted
    found: list[str] = field(default_factory=list)

    def groups(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def group_creator(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def producer_ids(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def acls(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def rules(self, name: str) -> "_Rules":
        return _Rules(self._cluster(name))

    def shapes(self, name: str) -> "_Shapes":
        return _Shapes(self._cluster(name))

    def workers(self) -> "_Connectors":
        return _Connectors(self)

    def elections(self, name: str) -> "_Cluster":
        return self._cluster(name)

    def connectors(self) -> "_Connectors":
        return _Connectors(self)

    def endpoint(self, number: int) -> "_Endpoint":
        self.hold(_is_index(number, self.allowed), _no("endpoint", number))
        return _Endpoint(self)

    def probe_record(self, name: str, entrance: int | None = None) -> "_Cluster":
        self.hold(entrance is None or _is_index(entrance, self.allowed), _no("endpoint", entrance))
        return self._cluster(name)

    def run(
        self, identity: str, argv: Sequence[str], env: Mapping[str, str], timeout_s: float
    ) -> CommandResult:
        self.found += _command(argv, env, self.allowed)
        self.hold(isinstance(timeout_s, int | float), "its timeout is not a number")
        return CommandResult(0)

    def save_evidence(self, name: str, document: object) -> None:
        self.hold(bool(re.fullmatch(r"[\w-][\w.-]*", name)), f"{name!r} is not a file of a run")

    def reversed(self) -> "_Rehearsal":
        return self

    def reconcile(self, wish: ReconcileRequest) -> None:
        """Whatever its folder is: a search that is not there is made again."""

    def _cluster(self, name: str) -> "_Cluster":
        self.hold(name in self.allowed.clusters, _no("cluster", name))
        return _Cluster(self)

    def hold(self, holds: bool, words: str) -> None:
        if not holds:
            self.found.append(words)


@dataclass(frozen=True, slots=True)
class _Cluster:
    """Everything about a cluster but its rules and the shapes of its topics."""

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
        """Which leaders are elected is decided anew by what the cluster says."""
        return {}

    def advance(self, beyond: int) -> Mapping[int, Any]:
        self.writer.hold(isinstance(beyond, int), "its target is not a producer id")
        return {}

    def write_probe(self, topic: str, text: str) -> None:
        """The probe record's topic is drctl's own."""

    def deny(self, rules: Collection[Acl]) -> Mapping[Acl, Any]:
        """Fences are denying rules of the link's principals and topics, in either direction."""
        allowed = self.writer.allowed
        for rule in rules:
            known = allowed.knows_principal(rule.principal)
            denies = rule.permission == DENY and rule.operation in {each.value for each in Denied}
            told = f"{rule.permission} {rule.operation} on {rule.name} to {rule.principal}"
            self.writer.hold(known and denies, f"{told} is not an ACL of the link's fence")
            self.topic(rule.name)
        return {}

    restore = deny

    def topic(self, name: str) -> None:
        self.writer.hold(self.writer.allowed.carries(name), _not_carried(name))

    def _group(self, name: str) -> None:
        self.writer.hold(self.writer.allowed.carries_group(name), _foreign_group(name))


@dataclass(frozen=True, slots=True)
class _Rules:
    """Of a repair."""

    cluster: _Cluster

    def add(self, rules: Collection[Acl]) -> Mapping[Acl, Any]:
        allowed = self.cluster.writer.allowed
        for rule in rules:
            self.cluster.writer.hold(_is_about(rule.name, rule, allowed), _not_carried(rule.name))
        return {}

    remove = add


@dataclass(frozen=True, slots=True)
class _Shapes:
    """Of a repair."""

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
        """Which of a connector's positions are whose, only its plugin knows."""
        self.stop(name)

    def configure(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Its configuration may hold anything: only the filter of drctl's copies is changed."""
        self.stop(name)
        for key, value in changes.items():
            self.writer.hold(
                is_own_change(key, value), f"{key} of {name} is not a key that drctl sets"
            )

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        self.stop(name)
        for each in offsets:
            _Cluster(self.writer).topic(each["partition"]["topic"])


@dataclass(frozen=True, slots=True)
class _Endpoint:
    writer: _Rehearsal

    def switch(self, to: str, before: EndpointState) -> None:
        self.writer.hold(to in self.writer.allowed.clusters, _no("cluster", to))

    def restore(self, before: EndpointState) -> None:
        """What is put back is held where a rollback is planned: see `held_kinds`."""
