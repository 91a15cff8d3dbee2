"""Settings of copies that are weaker than those of their topics."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from drctl.checks.check import NotObserved
from drctl.checks.connectors import SOURCE, find
from drctl.checks.copies import Pair, compared
from drctl.checks.fixing import NOT_OURS, Fix, Fixes, Left, Seen, SettingChange, keeps_its_topics
from drctl.checks.observed import Observed
from drctl.config.foreign_patterns import compiled
from drctl.model.pasting import option
from drctl.model.repairs import TopicSetting, TopicShape

MIN_ISR, POLICY = "min.insync.replicas", "cleanup.policy"
_WEAKER, _KEPT, _TIME = "parity-of-settings", "parity-of-retention", "parity-of-timestamps"
_GONE = "what consumers still want to read may be gone there, and lost records are not found"
# What MirrorMaker 2 leaves alone unless `config.properties.exclude` says otherwise.
_NOT_SYNCED = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas,"
    r" message\.timestamp\.difference\.max\.ms, message\.timestamp\.type,"
    r" unclean\.leader\.election\.enable, min\.insync\.replicas"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A setting that a check of parity judges.

    Attributes:
        weaker: whether the copy's value, given second, is weaker than the topic's.
        why: what it costs.
    """

    check: str
    weaker: Callable[[str, str], bool]
    why: str


def _lower(topic: str, copy: str) -> bool:
    return _number(copy) < _number(topic)


def _shorter(topic: str, copy: str) -> bool:
    return _limit(copy) < _limit(topic)


def _other_policy(topic: str, copy: str) -> bool:
    return bool(_policies(copy) - _policies(topic)) or _policies(copy) < _policies(topic)


def _time_of_copying(topic: str, copy: str) -> bool:
    return copy == "LogAppendTime" != topic


JUDGED: Mapping[str, Judged] = {
    MIN_ISR: Judged(
        _WEAKER, _lower, "acknowledged records are on fewer brokers than the applications count on"
    ),
    "max.message.bytes": Judged(
        _WEAKER, _lower, "the target refuses records that the source takes"
    ),
    POLICY: Judged(_WEAKER, _other_policy, "the target deletes what the source keeps"),
    "retention.ms": Judged(_KEPT, _shorter, _GONE),
    "retention.bytes": Judged(_KEPT, _shorter, _GONE),
    "delete.retention.ms": Judged(_KEPT, _shorter, _GONE),
    "message.timestamp.type": Judged(
        _TIME, _time_of_copying, "positions by time, and lag in seconds, cannot be told"
    ),
}
"""Those that are changed, and no others."""


def weaker_keys(pair: Pair) -> tuple[str, ...]:
    """Which settings of a copy are weaker, or do something else."""
    both = pair.topic.config.keys() & pair.copy.config.keys()
    return tuple(
        key
        for key, judged in JUDGED.items()
        if key in both and judged.weaker(pair.topic.config[key], pair.copy.config[key])
    )


def settings_to_fix(observed: Observed, seen: Seen) -> Fixes:
    """The settings that would be changed, and those that are left.

    Raises:
        NotObserved: the topics are not known.
    """
    fixes: list[Fix[SettingChange]] = []
    left: list[Left] = []
    for pair in compared(observed).pairs:
        ours, theirs = seen.ours.get(pair.topic.name), seen.theirs.get(pair.copy.name)
        for key in weaker_keys(pair):
            if not _told(ours, key) or not _told(theirs, key):
                left.append(_unseen(pair, key))
                continue
            one = _Difference(observed, pair, key, ours, theirs)
            against = next(one.against(), None)
            if against is None:
                fixes.append(one.fix())
            else:
                left.append(against)
    return Fixes(settings=tuple(fixes), left=tuple(left))


@dataclass(frozen=True, slots=True)
class _Difference:
    """One setting of one copy."""

    observed: Observed
    pair: Pair
    key: str
    ours: TopicShape
    theirs: TopicShape

    @property
    def wanted(self) -> TopicSetting:
        return self.ours.settings[self.key]

    @property
    def there(self) -> TopicSetting:
        return self.theirs.settings[self.key]

    def fix(self) -> Fix[SettingChange]:
        copy, key = self.pair.copy.name, self.key
        own = "" if self.there.own else " (of its brokers)"
        change = SettingChange(copy, key, self.there.value, self.wanted.value)
        why = JUDGED[key].why
        what, now = f"topic {copy}: {key}", f"{self.there.value}{own}"
        return Fix(what, now, self.wanted.value, why, change, self._note())

    def _note(self) -> str:
        count = self.theirs.replicas
        if self.key == MIN_ISR and _number(self.wanted.value) == count > 1:
            return f"it has {count} replicas: without one broker it takes no record"
        new = _policies(self.wanted.value) - _policies(self.there.value)
        if self.key == POLICY and new:
            return f"from then on it does what {', '.join(sorted(new))} means, as the source does"
        return ""

    def against(self) -> Iterator[Left]:
        """What keeps it from being changed here."""
        copy, key, value = self.pair.copy.name, self.key, self.wanted.value
        if keeps_its_topics(self.observed):
            yield self._left(NOT_OURS, "see what the mirror takes over")
        if key == MIN_ISR and _number(value) > self.theirs.replicas:
            yield self._left(
                f"it has {replicas(self.theirs.replicas)}: with {key}={value} it would take no"
                " record with acks=all",
                "raise its replication factor first: kafka-reassign-partitions",
            )
        if key == POLICY and _policies(self.there.value) < _policies(value):
            yield self._left(
                "to set it deletes records on the target, and what is deleted is not put back",
                f"on {self.observed.link.target}: kafka-configs --alter --entity-type topics"
                f" {option('--entity-name', copy)} {option('--add-config', f'{key}=[{value}]')}",
            )
        if back := taken_back(self.observed, key, self.wanted, self.there):
            yield self._left(
                back,
                f"set {key}={value} on topic {self.pair.topic.name} of"
                f" {self.observed.link.source} itself (it is copied), or add it to"
                " config.properties.exclude of the connector",
            )

    def _left(self, why: str, cure: str) -> Left:
        what = (
            f"topic {self.pair.copy.name}: {self.key}={self.there.value}, on the source"
            f" {self.wanted.value}"
        )
        return Left(JUDGED[self.key].check, what, why, JUDGED[self.key].why, cure)


def taken_back(observed: Observed, key: str, ours: TopicSetting, theirs: TopicSetting) -> str:
    """Why MirrorMaker 2 would take a setting away again; empty where it would not.

    What the source's topic has only as Kafka's own default, it removes from the copy.
    """
    if observed.link.settings.replicator.kind != "mirrormaker2" or not ours.default:
        return ""
    try:
        connector = find(observed, SOURCE)
    except NotObserved:
        return ""
    if connector is None or not _syncs(connector.config, key):
        return ""
    if theirs.beneath is not None and not JUDGED[key].weaker(ours.value, theirs.beneath):
        return ""
    seconds = connector.config.get("sync.topic.configs.interval.seconds", "600")
    return (
        f"connector {connector.name} (sync.topic.configs.enabled) would remove it within"
        f" {seconds} s: the source has it only by default, and the target's brokers have another"
    )


def _syncs(config: Mapping[str, str], key: str) -> bool:
    if config.get("sync.topic.configs.enabled", "true").lower() == "false":
        return False
    if config.get("use.defaults.from", "target") == "source":
        return False
    excluded = config.get("config.properties.exclude", _NOT_SYNCED)
    patterns = [compiled(each.strip()) for each in excluded.split(",")]
    # One that is left to Java may leave it out: it is said that it might be set back.
    return not any(pattern and pattern.fullmatch(key) for pattern in patterns)


def _told(shape: object, key: str) -> TypeGuard[TopicShape]:
    return isinstance(shape, TopicShape) and key in shape.settings


def _unseen(pair: Pair, key: str) -> Left:
    what = f"topic {pair.copy.name}: {key}={pair.copy.config[key]}"
    why = "whose setting it is could not be seen on both sides"
    return Left(JUDGED[key].check, what, why, JUDGED[key].why, "drctl doctor --fix, once more")


def replicas(number: int) -> str:
    """How many, in words."""
    return "1 replica" if number == 1 else f"{number} replicas"


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _limit(text: str) -> float:
    if not text.lstrip("-").isdecimal():
        return 0
    return float("inf") if int(text) < 0 else int(text)


def _policies(text: str) -> frozenset[str]:
    return frozenset(text.replace(" ", "").split(","))
