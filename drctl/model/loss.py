"""What an unplanned failover loses, as far as anybody can tell: two bounds and the likely number.

The one value for it: plans, status, reports, metrics and JSON take it from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from drctl.model.document import Count, Document, From, Name, Seconds
from drctl.model.typed_json import read_as


class Mode(StrEnum):
    """The two kinds of failover; what is allowed differs."""

    PLANNED = "planned"
    """Both clusters are alive: nothing may be lost."""
    UNPLANNED = "unplanned"
    """The source is dead, cut off or wrong: what was not copied is found later."""


_NOBODY_LOOKED = "nobody has looked for it"


class Figure(NamedTuple):
    """A number of records, and what it rests on.

    Attributes:
        records: None where it is not known.
        based_on: the evidence in words; where the number is not known, why not.
    """

    records: int | None = None
    based_on: str = _NOBODY_LOOKED


_NOT_KNOWN = Figure()


@dataclass(frozen=True, slots=True)
class LossRange:
    """Between which numbers of records the loss lies, and which number is likely.

    Attributes:
        at_least: were seen on the source, and are not on the target.
        likely: until the source's last sign of life.
        at_most: if the source was written to at its highest recent pace until the moment of the
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
        """Whether any of the three is."""
        return any(number is not None for number in self.numbers)

    @property
    def words(self) -> str:
        """In a few words: `about 1,240 records (at least 12, at most 3,100)`."""
        least, likely, most = self.numbers
        if not self.known:
            return "an unknown number of records"
        ends = [
            f"{name} {number:,}"
            for name, number in (("at least", least), ("at most", most))
            if number is not None
        ]
        if likely is None:
            counted = most if most is not None else least
            ends[-1] += " record" if counted == 1 else " records"
            missing = " (how many are likely is not known)"
            return ", ".join(ends) + missing
        if least == likely == most:
            return _records(likely)
        if most is None:
            ends.append("no upper bound is known")
        return f"about {_records(likely)} ({', '.join(ends)})"


class BasedOnDocument(Document):
    """The evidence of each number; where it is null, why it is not known."""

    read = From(LossRange)
    records: str = read(lambda r: r.likely.based_on)
    at_least: str = read(lambda r: r.at_least.based_on)
    at_most: str = read(lambda r: r.at_most.based_on)


class LossRangeDocument(Document):
    """The members that every document has of it.

    Attributes:
        records: the counted number where it is exact, else the likely one, until the source's last
            sign of life; null: not known.
        at_least: no fewer than so many: those were seen on the source, and are not on the target;
            null: not known.
        at_most: no more than so many, by the replicator's own word; of a source that does not
            answer, if it is written to until now at its highest recent pace; null: not known.
        based_on: the evidence of each number; where it is null, why it is not known.
    """

    read = From(LossRange)
    records: Count | None = read(lambda r: r.likely.records)
    at_least: Count | None = read(lambda r: r.at_least.records)
    at_most: Count | None = read(lambda r: r.at_most.records)
    based_on: BasedOnDocument = read(BasedOnDocument.of)


def exactly(records: int, based_on: str) -> LossRange:
    """Counted: the three are one."""
    return LossRange(*(Figure(records, based_on),) * 3)


def not_known(why: str) -> LossRange:
    """Nothing tells, and why."""
    return LossRange(*(Figure(None, why),) * 3)


def _records(number: int) -> str:
    return f"{number:,} record" if number == 1 else f"{number:,} records"


@dataclass(frozen=True, slots=True)
class Loss:
    """What an unplanned failover would lose; an estimate, never proof.

    Attributes:
        records: how many.
        seconds: in which they were written, until the source's last sign of life; None where
            nothing tells.
        seconds_at_most: the same until the moment of the estimate.
        words: all of it in a sentence.
        evidence: what was found, each piece with its age, and what was not.
    """

    records: LossRange = LossRange()
    seconds: float | None = None
    seconds_at_most: float | None = None
    words: str = "nothing tells what is lost"
    evidence: tuple[str, ...] = ()


class LossDocument(LossRangeDocument):
    """What is probably lost, as plans and the journal have it.

    Attributes:
        seconds: in which they were written, until the source's last sign of life; null: not known.
        seconds_at_most: the same until now; null: not known.
        evidence: what it rests on, each piece with its age.
    """

    seconds: Seconds | None
    seconds_at_most: Seconds | None
    words: Name
    evidence: tuple[str, ...]


def loss_document(loss: Loss) -> LossDocument:
    """What is probably lost."""
    return LossDocument.of(loss, **vars(LossRangeDocument.of(loss.records)))


def not_estimated(why: str) -> Loss:
    """Nobody could look."""
    return Loss(not_known(why), words=f"what is lost is not known: {why}")


@dataclass(frozen=True, slots=True)
class LossFacts:
    """The estimate as a step's facts; a journal of an older drctl has no `at_most`, nor `based_on`.

    Attributes:
        records: the likely number.
        based_on: by number, its evidence in words.
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
        """The three numbers, and what each rests on."""
        least, likely, most = (
            Figure(number, self.based_on.get(name, "its journal does not say"))
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
