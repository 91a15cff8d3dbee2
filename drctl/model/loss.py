"""Estimated loss of an unplanned failover: lower bound, likely number and upper bound.

Plans, status, reports, metrics and JSON all use this value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from drctl.model.document import Count, Document, From, Name, Seconds
from drctl.model.typed_json import read_as


class Mode(StrEnum):
    """The two kinds of failover."""

    PLANNED = "planned"
    """Both clusters are up: no record may be lost."""
    UNPLANNED = "unplanned"
    """The source is lost or unusable: unreplicated records are found later."""


_NOT_MEASURED = "not measured"


class Figure(NamedTuple):
    """A number of records and its evidence.

    Attributes:
        records: None if unknown.
        based_on: the evidence as text; for an unknown number, why it is unknown.
    """

    records: int | None = None
    based_on: str = _NOT_MEASURED


_NOT_KNOWN = Figure()


@dataclass(frozen=True, slots=True)
class LossRange:
    """Lower bound, likely number and upper bound of lost records.

    Attributes:
        at_least: records seen on the source that are not on the target.
        likely: the number up to the time when the source was last seen alive.
        at_most: the number if the source was written to at its highest recent rate until the
            estimate.
    """

    at_least: Figure = _NOT_KNOWN
    likely: Figure = _NOT_KNOWN
    at_most: Figure = _NOT_KNOWN

    @property
    def numbers(self) -> tuple[int | None, int | None, int | None]:
        """At least, likely, at most."""
        return self.at_least.records, self.likely.records, self.at_most.records

    @property
    def known(self) -> bool:
        """Whether any of the three numbers is known."""
        return any(number is not None for number in self.numbers)

    @property
    def message(self) -> str:
        """Short text: `about 1,240 records (at least 12, at most 3,100)`."""
        number, bounds = self.parts
        return f"{number} ({bounds})" if bounds else number

    @property
    def parts(self) -> tuple[str, str]:
        """The two parts of `message`: the number, and its bounds or what is unknown."""
        least, likely, most = self.numbers
        if not self.known:
            return "an unknown number of records", ""
        ends = [
            f"{name} {number:,}"
            for name, number in (("at least", least), ("at most", most))
            if number is not None
        ]
        if likely is None:
            counted = most if most is not None else least
            ends[-1] += " record" if counted == 1 else " records"
            return ", ".join(ends), "the likely number is unknown"
        if least == likely == most:
            return _records(likely), ""
        if most is None:
            ends.append("no upper bound is known")
        return f"about {_records(likely)}", ", ".join(ends)


class BasedOnDocument(Document):
    """The evidence of each number; for a null number, why it is unknown."""

    read = From(LossRange)
    records: str = read(lambda r: r.likely.based_on)
    at_least: str = read(lambda r: r.at_least.based_on)
    at_most: str = read(lambda r: r.at_most.based_on)


class LossRangeDocument(Document):
    """The loss fields of every document.

    Attributes:
        records: the exact number if it was counted, else the likely number up to the time when the
            source was last seen alive; null: unknown.
        at_least: lower bound: records seen on the source that are not on the target; null: unknown.
        at_most: upper bound, from the replicator's progress; for a source that does not answer, on
            the assumption that it was written to until now at its highest recent rate; null:
            unknown.
        based_on: the evidence of each number; for a null number, why it is unknown.
    """

    read = From(LossRange)
    records: Count | None = read(lambda r: r.likely.records)
    at_least: Count | None = read(lambda r: r.at_least.records)
    at_most: Count | None = read(lambda r: r.at_most.records)
    based_on: BasedOnDocument = read(BasedOnDocument.of)


def exactly(records: int, based_on: str) -> LossRange:
    """A counted loss: all three numbers are equal."""
    return LossRange(*(Figure(records, based_on),) * 3)


def not_known(why: str) -> LossRange:
    """An unknown loss, and why."""
    return LossRange(*(Figure(None, why),) * 3)


def _records(number: int) -> str:
    return f"{number:,} record" if number == 1 else f"{number:,} records"


@dataclass(frozen=True, slots=True)
class Loss:
    """The estimated loss of an unplanned failover.

    Attributes:
        records: number of records.
        seconds: time span in which they were written, up to when the source was last seen alive;
            None if unknown.
        seconds_at_most: the same, up to the time of the estimate.
        message: the estimate as a sentence.
        evidence: what was found, with its age, and what was not found.
    """

    records: LossRange = LossRange()
    seconds: float | None = None
    seconds_at_most: float | None = None
    message: str = "unknown how many records are not replicated"
    evidence: tuple[str, ...] = ()


class LossDocument(LossRangeDocument):
    """The estimated loss in plans and the journal.

    Attributes:
        seconds: time span in which the records were written, up to when the source was last seen
            alive; null: unknown.
        seconds_at_most: the same, up to now; null: unknown.
        evidence: what the estimate is based on, with its age.
    """

    seconds: Seconds | None
    seconds_at_most: Seconds | None
    message: Name
    evidence: tuple[str, ...]


def loss_document(loss: Loss) -> LossDocument:
    """The estimated loss as a document."""
    return LossDocument.of(loss, **vars(LossRangeDocument.of(loss.records)))


def not_estimated(why: str) -> Loss:
    """An estimate that could not be made, and why."""
    return Loss(not_known(why), message=f"unknown how many records are not replicated: {why}")


@dataclass(frozen=True, slots=True)
class LossFacts:
    """The estimate as a step's facts; older journals have neither `at_most` nor `based_on`.

    Attributes:
        records: the likely number.
        based_on: evidence text by number.
    """

    records: int | None = None
    at_least: int | None = None
    at_most: int | None = None
    based_on: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    seconds_at_most: float | None = None
    evidence: tuple[str, ...] = ()

    @property
    def range(self) -> LossRange:
        """The three numbers with their evidence."""
        least, likely, most = (
            Figure(number, self.based_on.get(name, "not recorded in the journal"))
            for name, number in (
                ("at_least", self.at_least),
                ("records", self.records),
                ("at_most", self.at_most),
            )
        )
        return LossRange(least, likely, most)


def facts_of(loss: Loss) -> LossFacts:
    """The estimate without its sentence."""
    return read_as(LossFacts, loss_document(loss).to_json())
