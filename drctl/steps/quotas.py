"""Sets client quotas of a target to those of its source; a rollback restores the old limits."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from drctl.engine.kind import Description, Facts, Readback, State, StepKind, Trait, failed_items
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.survey import Entity, Limit, Quotas, quota_of
from drctl.model.text import plural
from drctl.model.topology import Unavailable
from drctl.steps.repairs import Difference


@dataclass(frozen=True, kw_only=True)
class QuotaChange(Difference):
    """A limit of a client quota: its value when the plan was made, if any, and its new value."""

    entity: Entity
    key: str
    was: Annotated[float | None, Field(alias="from")] = None
    to: float


@dataclass(frozen=True, slots=True)
class QuotasSettings:
    """The limits to set."""

    cluster: str
    changes: tuple[QuotaChange, ...]


@dataclass(frozen=True, slots=True)
class QuotaSet:
    """A limit: its current value, if it has one, and its new value."""

    entity: Entity
    key: str
    was: Annotated[float | None, Field(alias="from")]
    to: float


@dataclass(frozen=True, slots=True)
class QuotasIntent:
    """The limits with their current values."""

    cluster: str
    changes: tuple[QuotaSet, ...]

    @property
    def altered(self) -> tuple[QuotaSet, ...]:
        """The limits that still have to be changed."""
        return tuple(each for each in self.changes if each.was != each.to)


@dataclass(frozen=True, slots=True)
class QuotasFacts:
    """How many limits have the wanted value."""

    set: int


class SetQuotas(StepKind[QuotasSettings, QuotasIntent, QuotasFacts]):
    """Sets limits; a rollback restores the previous ones from the journal."""

    name = "set-quotas"
    traits = Trait.CHANGES

    def describe(self, settings: QuotasSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(
            f"set {plural(len(settings.changes), 'client quota')} on {settings.cluster}",
            "each has the source's value when read back",
            "restore each previous limit, or remove it where there was none",
        )

    def check(self, settings: QuotasSettings, facts: Facts, reader: LinkReader) -> QuotasIntent:
        """Read the current limits.

        Raises:
            Refused: quotas cannot be read, or one has neither the planned old nor the new value.
            Unreachable: the cluster did not respond.
        """
        cluster = settings.cluster
        found = reader.quotas(cluster).quotas()
        if isinstance(found, Unavailable):
            raise Refused(
                f"the client quotas of {cluster} cannot be read: {found.reason}",
                "allow drctl's user DESCRIBE_CONFIGS on the cluster",
            )
        changes = []
        for each in settings.changes:
            now = found.get(each.entity, {}).get(each.key)
            if now not in (each.was, each.to):
                raise Refused(
                    f"{each.key} of {quota_of(each.entity)} on {cluster} is {_limit(now)},"
                    f" but was {_limit(each.was)} when the plan was made",
                    "make a new plan: run the same command again",
                )
            changes.append(QuotaSet(each.entity, each.key, now, each.to))
        return QuotasIntent(cluster, tuple(changes))

    def apply(self, intent: QuotasIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Set the limits."""
        return _set(intent, lambda each: each.to, writer)

    def verify(self, intent: QuotasIntent, reader: LinkReader) -> Readback[QuotasFacts]:
        """Verify that each limit reads back."""
        total = len(intent.changes)
        wrong = _wrong(intent, intent.changes, lambda each: each.to, reader)
        if isinstance(wrong, Readback):
            return wrong
        if wrong:
            text = f"not as planned: {len(wrong)} of {plural(total, 'client quota')}: {wrong[0]}"
            return Readback(State.WAITING, text, items=wrong)
        text = f"{plural(total, 'client quota')} read back with the planned values"
        return Readback(State.DONE, text, QuotasFacts(total))

    def undo(self, intent: QuotasIntent, writer: LinkWriter) -> tuple[str, ...]:
        """Restore the previous limits."""
        return _set(intent, lambda each: each.was, writer)

    def verify_undo(self, intent: QuotasIntent, reader: LinkReader) -> Readback[QuotasFacts]:
        """Verify that each previous limit is restored."""
        wrong = _wrong(intent, intent.altered, lambda each: each.was, reader)
        if isinstance(wrong, Readback):
            return wrong
        if wrong:
            return Readback(State.WAITING, f"not restored: {wrong[0]}", items=wrong)
        return Readback(State.DONE, f"{plural(len(intent.altered), 'client quota')} restored")


def _set(
    intent: QuotasIntent, value: Callable[[QuotaSet], float | None], writer: LinkWriter
) -> tuple[str, ...]:
    limits = [Limit(each.entity, each.key, value(each)) for each in intent.altered]
    if not limits:
        return ()
    return failed_items(writer.quotas(intent.cluster).set_quotas(limits), _name)


def _name(limit: Limit) -> str:
    return f"{limit.key} of {quota_of(limit.entity)}"


def _wrong(
    intent: QuotasIntent,
    changes: Iterable[QuotaSet],
    wanted: Callable[[QuotaSet], float | None],
    reader: LinkReader,
) -> tuple[str, ...] | Readback[QuotasFacts]:
    """The limits without the wanted value."""
    found = reader.quotas(intent.cluster).quotas()
    if isinstance(found, Unavailable):
        text = f"the client quotas of {intent.cluster} cannot be read: {found.reason}"
        return Readback(State.UNKNOWN, text)
    return tuple(_differences(changes, wanted, found))


def _differences(
    changes: Iterable[QuotaSet], wanted: Callable[[QuotaSet], float | None], found: Quotas
) -> Iterator[str]:
    for each in changes:
        now = found.get(each.entity, {}).get(each.key)
        if now != wanted(each):
            name = f"{each.key} of {quota_of(each.entity)}"
            yield f"{name} is {_limit(now)}, not {_limit(wanted(each))}"


def _limit(value: float | None) -> str:
    return "not set" if value is None else f"{value:g}"
