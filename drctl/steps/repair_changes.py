"""The changes in the plan or the journal of a repair."""

from collections.abc import Iterable

from drctl.model.plan import Json, Step
from drctl.model.typed_json import read_as
from drctl.steps.quotas import QuotaChange, QuotasIntent, SetQuotas
from drctl.steps.repairs import (
    AclChange,
    AclsIntent,
    AddAcls,
    AddPartitions,
    ConfigureIntent,
    ConfigureTopics,
    CreateTopics,
    PartitionsChange,
    PartitionsIntent,
    SettingChange,
    TopicChange,
    TopicsIntent,
)

Change = AclChange | QuotaChange | PartitionsChange | SettingChange | TopicChange


_KINDS = (AddAcls(), SetQuotas(), ConfigureTopics(), AddPartitions(), CreateTopics())


def changes_of(steps: Iterable[Step]) -> tuple[Change, ...]:
    """The changes that the steps of a repair plan would make."""
    found: list[Change] = []
    for step in steps:
        for kind in _KINDS:
            if step.kind == kind.name:
                found += kind.read_settings(step.settings).changes
    return tuple(found)


_NO_DESCRIPTION = dict.fromkeys(("what", "before", "after", "why", "note"), "")


def changes_in(kind: str, intent: Json) -> tuple[Change, ...]:
    """The changes in the intent of a repair step."""
    if kind == AddAcls.name:
        return tuple(
            AclChange(acl=acl, **_NO_DESCRIPTION) for acl in read_as(AclsIntent, intent).added
        )
    if kind == ConfigureTopics.name:
        settings = read_as(ConfigureIntent, intent).changes
        return tuple(
            SettingChange(
                topic=each.topic, key=each.key, was=each.was, to=each.to, **_NO_DESCRIPTION
            )
            for each in settings
        )
    if kind == SetQuotas.name:
        limits = read_as(QuotasIntent, intent).changes
        return tuple(
            QuotaChange(entity=e.entity, key=e.key, was=e.was, to=e.to, **_NO_DESCRIPTION)
            for e in limits
        )
    if kind == AddPartitions.name:
        partitions = read_as(PartitionsIntent, intent).changes
        return tuple(
            PartitionsChange(topic=each.topic, to=each.to, **_NO_DESCRIPTION) for each in partitions
        )
    return read_as(TopicsIntent, intent).make if kind == CreateTopics.name else ()
