"""The plan that brings a target in line with its source; what can be rolled back comes first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drctl.checks.repairs import GUARD, Fix, Fixes
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step

NAME = "doctor-fix"

GUARDS = ("source-unreachable", "target-unreachable", "target-no-controller", GUARD)
"""What is asked before anything is changed; the last one is asked by repairs alone."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair is planned from.

    Attributes:
        basis: what was observed, each part in words that change when it does.
        overrides: precheck to the reason why it is overridden.
    """

    link: str
    source: str
    target: str
    fixes: Fixes
    connectors: tuple[str, ...] = ()
    basis: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)


def repair(given: Repair) -> Plan:
    """The plan; it has no steps where nothing can be changed."""
    steps = tuple(_steps(given)) if given.fixes.changes else ()
    return Plan(NAME, given.link, given.source, given.target, steps, given.basis, given.overrides)


def _steps(given: Repair) -> Iterator[Step]:
    guards = {
        "guards": list(GUARDS),
        "mode": Mode.PLANNED.value,
        "overrides": dict(given.overrides),
    }
    yield Step("guards", "check", guards, 30)
    stock = {"clusters": [given.source, given.target], "connectors": list(given.connectors)}
    yield Step("take-stock", "take-stock", stock, 30)
    yield from _changes(given)
    # Another process may shape topics, too: that one difference is there again undoes nothing.
    ends = {"source": given.source, "target": given.target}
    yield Step("second-look", "second-look", ends, 30, Duty.BEST_EFFORT)


def _changes(given: Repair) -> Iterator[Step]:
    fixes = given.fixes
    rules = [{**_words(fix), "rule": list(fix.change)} for fix in fixes.rules]
    settings = [
        {
            **_words(fix),
            "topic": fix.change.topic,
            "key": fix.change.key,
            "from": fix.change.before,
            "to": fix.change.after,
        }
        for fix in fixes.settings
    ]
    partitions = [
        {**_words(f), "topic": f.change.topic, "to": f.change.total} for f in fixes.partitions
    ]
    topics = [
        {
            **_words(fix),
            "topic": fix.change.name,
            "partitions": fix.change.partitions,
            "replicas": fix.change.replicas,
            "config": dict(fix.change.config),
        }
        for fix in fixes.topics
    ]
    kinds: tuple[tuple[str, list[dict[str, Any]]], ...] = (
        ("add-rules", rules),
        ("configure-topics", settings),
        ("add-partitions", partitions),
        ("make-topics", topics),
    )
    for kind, changes in kinds:
        if changes:
            yield Step(kind, kind, {"cluster": given.target, "changes": changes}, 20)


def _words(fix: Fix[object]) -> dict[str, Any]:
    return {
        "what": fix.what,
        "before": fix.before,
        "after": fix.after,
        "why": fix.why,
        "note": fix.note,
    }
