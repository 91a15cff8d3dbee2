"""A target that lags behind its source, in memory; every change is counted."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

from drctl.checks.repairs import Extension, Fix, Fixes, LimitChange, SettingChange
from drctl.engine.executing import Execution
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Unreachable
from drctl.model.finding import Finding, Status
from drctl.model.plan import Plan
from drctl.model.repairs import Acl, Acls, Alteration, TopicSetting, TopicShape, WantedTopic
from drctl.model.survey import Entity, Limit
from drctl.model.topology import Unavailable
from drctl.plans.repair import PRECHECKS, Repair, repair
from drctl.steps.registry import KINDS
from drctl.steps.repairs import AGAIN
from tests.engine.toggles import FastClock, MemoryJournal, NoWatcher, World

SIZE, TIME = "max.message.bytes", "message.timestamp.type"
READ, WRITE = (
    Acl("orders", "LITERAL", "User:app", "*", what, "ALLOW") for what in ("READ", "WRITE")
)
SOMEBODY = Acl("orders", "LITERAL", "User:other", "*", "READ", "ALLOW")
POLICY = Unavailable("Policy violation")
ADA: Entity = (("user", "ada"),)
JOBS: Entity = (("client-id", None),)
RATE, SHARE = "producer_byte_rate", "request_percentage"


@dataclass
class Lagging(World):
    """Implements the ports that repair steps use.

    Attributes:
        partitions: partition counts of the target's topics.
        own: settings of the topics themselves.
        rules: ACLs of the target.
        limits: client quotas of the target.
        declines: topics or ACL operations that the target refuses to change.
        against: names of prechecks that fail.
        left: repairs that only a person can do.
        looking: whether a step is reading.
    """

    partitions: dict[str, int] = field(default_factory=lambda: {"orders": 1, "payments": 2})
    own: dict[tuple[str, str], str] = field(
        default_factory=lambda: {("payments", TIME): "LogAppendTime"}
    )
    rules: set[Acl] = field(default_factory=lambda: {SOMEBODY})
    limits: dict[tuple[Entity, str], float] = field(default_factory=lambda: {(ADA, RATE): 10.0})
    declines: set[str] = field(default_factory=set)
    against: set[str] = field(default_factory=set)
    left: tuple[str, ...] = ()
    looking: bool = False
    fall: Callable[[str], None] = lambda point: None
    kept: list[str] = field(default_factory=list)

    @property
    def state(self) -> object:
        """The whole state of the target."""
        return dict(self.partitions), dict(self.own), set(self.rules), dict(self.limits)

    # Reading methods.

    def findings(self, asked: str) -> list[Finding]:
        self.fall("look at everything")
        if asked == AGAIN:
            open_ = [Finding("doctor-fix", Status.FAIL, w, "still") for w in self.differences()]
            return open_ + [Finding("x", Status.WARN, what, "for a person") for what in self.left]
        status = {name: Status.FAIL if name in self.against else Status.OK for name in PRECHECKS}
        return [Finding(name, each, "link main", "as seen") for name, each in status.items()]

    def differences(self) -> list[str]:
        found = [fix.what for fix in FIXES.rules if fix.change not in self.rules]
        for quota in FIXES.quotas:
            if self.limits.get((quota.change.entity, quota.change.key)) != quota.change.to:
                found.append(quota.what)
        for fix in FIXES.settings:
            if self._value(fix.change.topic, fix.change.key) != fix.change.after:
                found.append(fix.what)
        found += [f.what for f in FIXES.partitions if self.partitions["orders"] < f.change.total]
        return found + [f.what for f in FIXES.topics if f.change.name not in self.partitions]

    def acls(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(acls=lambda: self._listed(name))

    def quotas(self, name: str) -> SimpleNamespace:
        assert name == "secondary"
        return SimpleNamespace(quotas=self._quotas, set_quotas=self._set_quotas)

    def _quotas(self) -> dict[Entity, dict[str, float]]:
        self.fall("look at quotas")
        found: dict[Entity, dict[str, float]] = {}
        for (entity, key), value in self.limits.items():
            found.setdefault(entity, {})[key] = value
        return found

    def cluster_reader(self, name: str) -> SimpleNamespace:
        raise Unreachable(f"{name} tells nothing of this")

    def shapes(self, name: str) -> SimpleNamespace:
        assert name == "secondary"
        return SimpleNamespace(
            shapes=self._shapes, create=self._create, extend=self._extend, configure=self._configure
        )

    def _listed(self, name: str) -> Acls:
        self.fall("look at rules")
        assert name == "secondary"
        return Acls(True, tuple(sorted(self.rules)))

    def _shapes(self, names: Collection[str]) -> dict[str, TopicShape | Unavailable | None]:
        self.fall("look at topics")
        return {name: self._shape(name) for name in names}

    def _shape(self, name: str) -> TopicShape | None:
        if name not in self.partitions:
            return None
        settings = {
            key: TopicSetting(self._value(name, key), (name, key) in self.own)
            for key in (SIZE, TIME)
        }
        return TopicShape(self.partitions[name], 3, settings)

    def _value(self, topic: str, key: str) -> str:
        return self.own.get((topic, key), {SIZE: "1000", TIME: "CreateTime"}[key])

    # Writing methods.

    def save_evidence(self, name: str, document: Mapping[str, object]) -> None:
        self.kept.append(name)

    def rules_writer(self) -> SimpleNamespace:
        return SimpleNamespace(add=self._add, remove=self._remove)

    def _add(self, rules: Collection[Acl]) -> dict[Acl, Unavailable | None]:
        return {
            rule: self._change(rule.operation, lambda r=rule: self.rules.add(r)) for rule in rules
        }  # type: ignore[misc]

    def _remove(self, rules: Collection[Acl]) -> dict[Acl, Unavailable | None]:
        assert SOMEBODY not in rules
        return {
            rule: self._change("remove", lambda r=rule: self.rules.discard(r))  # type: ignore[misc]
            for rule in rules
        }

    def _set_quotas(self, limits: Collection[Limit]) -> dict[Limit, Unavailable | None]:
        return {
            each: self._change(each.key, lambda e=each: self._limit(e))  # type: ignore[misc]
            for each in limits
        }

    def _limit(self, limit: Limit) -> None:
        if limit.value is None:
            self.limits.pop((limit.entity, limit.key), None)
        else:
            self.limits[limit.entity, limit.key] = limit.value

    def _create(self, topics: Collection[WantedTopic]) -> dict[str, Unavailable | None]:
        return {
            each.name: self._change(
                each.name,
                lambda t=each: self.partitions.update({t.name: t.partitions}),  # type: ignore[misc]
            )
            for each in topics
        }

    def _extend(self, totals: Mapping[str, int]) -> dict[str, Unavailable | None]:
        return {
            name: self._change(name, lambda n=name, t=total: self.partitions.update({n: t}))  # type: ignore[misc]
            for name, total in totals.items()
        }

    def _configure(self, changes: Collection[Alteration]) -> dict[str, Unavailable | None]:
        return {
            each.topic: self._change(f"{each.topic} {each.key}", lambda c=each: self._set(c))  # type: ignore[misc]
            for each in changes
        }

    def _set(self, change: Alteration) -> None:
        if change.value is None:
            self.own.pop((change.topic, change.key), None)
        else:
            self.own[change.topic, change.key] = change.value

    def _change(self, name: str, do: Callable[[], object]) -> Unavailable | None:
        assert not self.looking, f"a read-only method changed {name}"
        self.fall(f"before {name}")
        if name in self.declines:
            return POLICY
        do()
        self.fall(f"after {name}")
        return None


class Doing:
    """The writer of the same state; `rules` is a writer's."""

    def __init__(self, world: Lagging) -> None:
        self.world = world

    def rules(self, name: str) -> SimpleNamespace:
        assert name == "secondary"
        return self.world.rules_writer()

    def shapes(self, name: str) -> SimpleNamespace:
        return self.world.shapes(name)

    def quotas(self, name: str) -> SimpleNamespace:
        return self.world.quotas(name)

    def save_evidence(self, name: str, document: Mapping[str, object]) -> None:
        self.world.save_evidence(name, document)


def _rule(rule: Acl) -> Fix[Acl]:
    return Fix(f"ACL {rule.operation}", "not there", "there", "refused", rule)


def _setting(topic: str, key: str, before: str, after: str) -> Fix[SettingChange]:
    change = SettingChange(topic, key, before, after)
    return Fix(f"topic {topic}: {key}", before, after, "weaker", change)


def _limit(entity: Entity, key: str, before: float | None, after: float) -> Fix[LimitChange]:
    change = LimitChange(entity, key, before, after)
    return Fix(f"quota {key}", f"{before}", f"{after}", "throttled", change)


FIXES = Fixes(
    (_rule(READ), _rule(WRITE)),
    (_limit(ADA, RATE, 10.0, 50.0), _limit(JOBS, SHARE, None, 5.0)),
    (
        _setting("orders", SIZE, "1000", "5000"),
        _setting("payments", TIME, "LogAppendTime", "CreateTime"),
    ),
    (Fix("topic orders: partitions", "1", "4", "keys move", Extension("orders", 4)),),
    (
        Fix(
            "topic invoices",
            "not there",
            "3 partitions",
            "clients fail",
            WantedTopic("invoices", 3, 2, {SIZE: "5000"}),
        ),
    ),
)


def plan(fixes: Fixes = FIXES) -> Plan:
    """Create the plan that repairs everything."""
    return repair(Repair("main", "primary", "secondary", fixes, basis={"a": "b"}))


def execution(world: Lagging, notes: MemoryJournal) -> Execution:
    """Create an executor over this state with its own kinds."""
    look, writer = cast(LinkReader, world), cast(LinkWriter, Doing(world))
    return Execution(KINDS, look, writer, notes, FastClock(), NoWatcher())
