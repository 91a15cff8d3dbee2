"""The plan of a drill: that of the real failover, without steps that affect anything else."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from drctl.config.link import Link
from drctl.config.mirrors import pattern_of
from drctl.config.schema import FenceConfig
from drctl.drill.cleaning import Scratch
from drctl.engine.invariants import violations
from drctl.model.document import Name
from drctl.model.errors import Refused
from drctl.model.loss import Mode
from drctl.model.plan import Plan, Step
from drctl.plans.failover import failover
from drctl.plans.inputs import PlanInputs
from drctl.steps.fences import FENCE_CONSUMERS
from drctl.steps.registry import KINDS


def narrowed(link: Link, scratch: Scratch, principals: tuple[str, ...]) -> Link:
    """The link, reduced to the drill's topic and group.

    Args:
        principals: principals that the fence denies; empty without a fence.
    """
    settings = link.settings.model_copy(
        update={
            "topics": (scratch.topic,),
            "exclude": (),
            "groups": (scratch.group.replace(".", r"\."),),
            "translate": True,
            "fence": FenceConfig(method="acl" if principals else "none", principals=principals),
        }
    )
    return replace(link, settings=settings)


# MirrorMaker 2's default of topics.exclude; `.*[-.]internal` of older releases matches no drill.
_EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"
_REFRESH_S = 600.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """The topics that a replicator replicates.

    Attributes:
        patterns: regular expressions; one must match the whole name.
        excluded: regular expressions; none may match.
        refresh_s: how long it may take to detect a new topic.
        connector: its name, if known.
    """

    patterns: tuple[str, ...] = (".*",)
    excluded: tuple[str, ...] = ()
    refresh_s: float = 0.0
    connector: str = ""

    def copies(self, name: str) -> bool:
        """Whether a topic of this name is replicated."""
        return any(_matches(each, name) for each in self.patterns) and not any(
            _matches(each, name) for each in self.excluded
        )

    def require(self, scratch: Scratch) -> None:
        """Require the drill's topic to be replicated.

        Raises:
            Refused: it is not.
        """
        if self.copies(scratch.topic):
            return
        within, without = ", ".join(self.patterns), ", ".join(self.excluded)
        matched = f"{within}, except {without}" if without else within
        raise Refused(
            f"connector {self.connector} does not replicate topic {scratch.topic}: it replicates"
            f" topics that match {matched}",
            "use a prefix that it replicates and no application subscribes to: --topic-prefix"
            " PREFIX; or add .*drctl-drill-.* to its topics",
        )


def coverage(connector: str, config: Mapping[str, str]) -> Coverage:
    """Read the coverage from a source connector's configuration."""
    kind = config.get("connector.class", "").rpartition(".")[2]
    if kind == "MirrorSourceConnector":
        refreshed = config.get("refresh.topics.interval.seconds", "")
        return Coverage(
            _words(config.get("topics", ".*")),
            _words(config.get("topics.exclude", _EXCLUDED)),
            float(refreshed) if refreshed.isdecimal() else _REFRESH_S,
            connector,
        )
    listed = map(pattern_of, _words(config.get("topic.whitelist", "")))
    patterns = tuple(filter(None, (*listed, config.get("topic.regex", ""))))
    excluded = tuple(map(pattern_of, _words(config.get("topic.blacklist", ""))))
    return Coverage(patterns or (".*",), excluded, 0.0, connector)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        # A regex that only Java understands: assume that it matches.
        return True


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


_SHARED = "the connectors also replicate other topics"
_SOURCES = "the link's source connectors keep writing to the source"
_PERSON = "not needed: the drill stops its own producer and consumer"
_BY_COMMAND = "your command would fence the applications; the drill stops its own producer"

LEFT_OUT: Mapping[str, str] = {
    "request-stop": _SHARED,
    "stop-replication": _SHARED,
    "confirm-stop": _SHARED,
    "command-stop-replication": _SHARED,
    "manual-stop-replication": _SHARED,
    "stop-source-connectors": _SOURCES,
    "move-source-positions": _SOURCES,
    "resume-source-connectors": _SOURCES,
    "switch-endpoint": "it would move the link's applications to the target",
    "advance-producer-ids": "it affects every producer of the target",
    "manual-fence": _PERSON,
    "command-fence": _BY_COMMAND,
    "manual": _PERSON,
    "manual-change": _PERSON,
}
"""Step kinds that affect more than the drill's own resources, and why."""

_LIVE = "drill: its own producer writes until the fence"
_NO_IDS = "drill: its own producer has no producer id"
_NO_FENCE = "drill: the link's fence is not set; the drill stops its own producer"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A step of the real plan that a drill skips."""

    id: Name
    title: Name
    why: Name


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The plan of a drill, and the skipped steps of the real plan."""

    plan: Plan
    left_out: tuple[LeftOut, ...]


def overrides(fenced: bool) -> Mapping[str, str]:
    """Prechecks that drills override, with the reasons."""
    passed = {"replication-lag": _LIVE, "producer-ids-collide": _NO_IDS}
    return passed if fenced else {**passed, "fence-not-possible": _NO_FENCE}


def rehearsal(mode: Mode, seen: PlanInputs, readers: tuple[str, ...]) -> Rehearsal:
    """Validate the plan of the real failover, then drop the steps that drills skip.

    Args:
        readers: principals that are denied READ; never drctl's own user, which compares.

    Raises:
        Refused: the real plan breaks a rule.
    """
    whole = failover(mode, seen)
    broken = violations(whole, KINDS)
    if broken:
        raise Refused("; ".join(broken), "show the plan: drctl failover")
    kept = tuple(
        # Only the drill's own consumer is denied.
        _denying(step, readers) if step.kind == FENCE_CONSUMERS.name else step
        for step in whole.steps
        if step.kind not in LEFT_OUT
    )
    left_out = tuple(
        LeftOut(step.id, KINDS[step.kind].describe(step.settings).title, LEFT_OUT[step.kind])
        for step in whole.steps
        if step.kind in LEFT_OUT
    )
    return Rehearsal(replace(whole, name=f"drill-{mode.value}", steps=kept), left_out)


def comparable(plan: Plan, scratch: Scratch) -> Plan:
    """The plan with `DRILL` in place of the drill's random id, which is in all of its names."""
    text = json.dumps(plan.to_json()).replace(scratch.drill, "DRILL")
    return Plan.from_json(json.loads(text))


def _denying(step: Step, readers: Collection[str]) -> Step:
    """The consumer fence, for these principals only."""
    settings = replace(FENCE_CONSUMERS.read_settings(step.settings), principals=tuple(readers))
    return FENCE_CONSUMERS.step(step.id, settings, step.timeout_s, step.duty)
