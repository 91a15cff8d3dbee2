"""The plan that brings a target in line with its source; what can be rolled back comes first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from drctl.checks.repairs import PRECHECK, Fix, Fixes
from drctl.engine.kind import BothClusters
from drctl.model.loss import Mode
from drctl.model.plan import Duty, Plan, Step
from drctl.steps.prechecks import CheckSettings, RunPrechecks, SnapshotSettings, SnapshotState
from drctl.steps.quotas import QuotaChange, QuotasSettings, SetQuotas
from drctl.steps.repairs import (
    AclChange,
    AclsSettings,
    AddAcls,
    AddPartitions,
    ConfigureSettings,
    ConfigureTopics,
    CreateTopics,
    FinalPrecheck,
    PartitionsChange,
    PartitionsSettings,
    SettingChange,
    TopicChange,
    TopicsSettings,
)

NAME = "doctor-fix"

PRECHECKS = ("source-unreachable", "target-unreachable", "target-no-controller", PRECHECK)
"""Prechecks that must pass before any change; only repairs use the last one."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair is planned from.

    Attributes:
        basis: what was observed: a short text per item, which changes when the item changes.
        overrides: overridden prechecks, each with its reason.
    """

    link: str
    source: str
    target: str
    fixes: Fixes
    connectors: tuple[str, ...] = ()
    basis: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)


def repair(given: Repair) -> Plan:
    """The plan; without steps if nothing can be changed."""
    steps = tuple(_steps(given)) if given.fixes.changes else ()
    return Plan(NAME, given.link, given.source, given.target, steps, given.basis, given.overrides)


def _steps(given: Repair) -> Iterator[Step]:
    prechecks = CheckSettings(PRECHECKS, Mode.PLANNED.value, given.overrides)
    yield RunPrechecks().step("prechecks", prechecks, 30)
    stock = SnapshotSettings((given.source, given.target), given.connectors)
    yield SnapshotState().step(SnapshotState.name, stock, 30)
    yield from _changes(given)
    # Another process may change topics too: a difference that reappears rolls nothing back.
    ends = BothClusters(given.source, given.target)
    yield FinalPrecheck().step(FinalPrecheck.name, ends, 30, Duty.BEST_EFFORT)


def _changes(given: Repair) -> Iterator[Step]:
    fixes, cluster = given.fixes, given.target
    if fixes.rules:
        acls = tuple(AclChange(acl=fix.change, **_words(fix)) for fix in fixes.rules)
        yield AddAcls().step(AddAcls.name, AclsSettings(cluster, acls), 20)
    if fixes.quotas:
        quotas = tuple(
            QuotaChange(
                entity=fix.change.entity,
                key=fix.change.key,
                was=fix.change.was,
                to=fix.change.to,
                **_words(fix),
            )
            for fix in fixes.quotas
        )
        yield SetQuotas().step(SetQuotas.name, QuotasSettings(cluster, quotas), 20)
    if fixes.settings:
        settings = tuple(
            SettingChange(
                topic=fix.change.topic,
                key=fix.change.key,
                was=fix.change.before,
                to=fix.change.after,
                **_words(fix),
            )
            for fix in fixes.settings
        )
        named = ConfigureTopics.name
        yield ConfigureTopics().step(named, ConfigureSettings(cluster, settings), 20)
    if fixes.partitions:
        partitions = tuple(
            PartitionsChange(topic=fix.change.topic, to=fix.change.total, **_words(fix))
            for fix in fixes.partitions
        )
        named = AddPartitions.name
        yield AddPartitions().step(named, PartitionsSettings(cluster, partitions), 20)
    if fixes.topics:
        topics = tuple(
            TopicChange(
                topic=fix.change.name,
                partitions=fix.change.partitions,
                replicas=fix.change.replicas,
                config=fix.change.config,
                **_words(fix),
            )
            for fix in fixes.topics
        )
        yield CreateTopics().step(CreateTopics.name, TopicsSettings(cluster, topics), 20)


def _words(fix: Fix[object]) -> dict[str, Any]:
    return {
        "what": fix.what,
        "before": fix.before,
        "after": fix.after,
        "why": fix.why,
        "note": fix.note,
    }
