"""The plan of a drill: that of the real failover, without steps that touch more than the drill."""

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
from drctl.plans.inputs import Circumstances
from drctl.steps.fences import FENCE_CONSUMERS
from drctl.steps.registry import KINDS


def narrowed(link: Link, scratch: Scratch, principals: tuple[str, ...]) -> Link:
    """The link over which the engine rehearses.

    Args:
        principals: whom its fence denies; empty where the drill's writer stops by itself.
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


# What MirrorMaker 2 leaves out where nothing is set; `.*[-.]internal` of older ones fits no drill.
_EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"
_REFRESH_S = 600.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a replicator says of the topics that it copies.

    Attributes:
        patterns: one of them must match a name whole.
        excluded: none of these may.
        refresh_s: how long it may take to see a new topic.
        connector: its name; empty where it is not known.
    """

    patterns: tuple[str, ...] = (".*",)
    excluded: tuple[str, ...] = ()
    refresh_s: float = 0.0
    connector: str = ""

    def copies(self, name: str) -> bool:
        """Whether a topic of this name is copied."""
        return any(_matches(each, name) for each in self.patterns) and not any(
            _matches(each, name) for each in self.excluded
        )

    def require(self, scratch: Scratch) -> None:
        """Check that the drill's topic is copied.

        Raises:
            Refused: it is not.
        """
        if self.copies(scratch.topic):
            return
        within, without = ", ".join(self.patterns), ", ".join(self.excluded)
        told = f"{within}, but for {without}" if without else within
        raise Refused(
            f"connector {self.connector} copies topics that match {told}: none is called"
            f" {scratch.topic}",
            "give a beginning that it copies, and that no application subscribes to:"
            " --topic-prefix PREFIX; or add .*drctl-drill-.* to its topics",
        )


def coverage(connector: str, config: Mapping[str, str]) -> Coverage:
    """What a source connector's configuration says."""
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
        # Only Java understands it: then only time tells whether it matches.
        return True


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


_SHARED = "its connectors carry other topics, too: to stop them would stop those"
_PERSON = "a rehearsal asks nobody: its own writer and reader stop by themselves"
_BY_COMMAND = "the site's command would fence the applications; the drill's writer stops by itself"

LEFT_OUT: Mapping[str, str] = {
    "request-stop": _SHARED,
    "stop-replication": _SHARED,
    "confirm-stop": _SHARED,
    "command-stop-replication": _SHARED,
    "manual-stop-replication": _SHARED,
    "switch-endpoint": "the link's applications would be sent to the target",
    "advance-producer-ids": "it changes which ids the target's brokers give to every producer",
    "manual-fence": _PERSON,
    "command-fence": _BY_COMMAND,
    "manual": _PERSON,
    "manual-change": _PERSON,
}
"""Kinds of steps that would touch more than the drill's own things, and why each would."""

_LIVE = "a rehearsal: its own writer writes until the fence"
_NO_IDS = "a rehearsal: its own writer has no producer id, and no id is skipped"
_NO_FENCE = "a rehearsal: the link's own fence is not set, the drill's writer stops by itself"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A step of the real plan that the rehearsal does without."""

    id: Name
    title: Name
    why: Name


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the engine carries out, and what it does not."""

    plan: Plan
    left_out: tuple[LeftOut, ...]


def overrides(fenced: bool) -> Mapping[str, str]:
    """Prechecks that are overridden because it is a rehearsal, each with the reason."""
    passed = {"replication-lag": _LIVE, "producer-ids-collide": _NO_IDS}
    return passed if fenced else {**passed, "fence-not-possible": _NO_FENCE}


def rehearsal(mode: Mode, seen: Circumstances, readers: tuple[str, ...]) -> Rehearsal:
    """The plan of the real failover, held to its rules of order, then without some steps.

    Args:
        readers: who is denied reading; never drctl's own user, which has to compare.

    Raises:
        Refused: the real plan breaks a rule.
    """
    whole = failover(mode, seen)
    broken = violations(whole, KINDS)
    if broken:
        raise Refused("; ".join(broken), "drctl failover shows the plan")
    kept = tuple(
        # Only the drill's own reader is denied.
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


def _denying(step: Step, readers: Collection[str]) -> Step:
    """The same fence of consumers, for these principals alone."""
    settings = replace(FENCE_CONSUMERS.read_settings(step.settings), principals=tuple(readers))
    return FENCE_CONSUMERS.step(step.id, settings, step.timeout_s, step.duty)
