"""What goes wrong, drawn from the seed at every request and every write to the journal."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from random import Random

from drctl.model.errors import Unknown, Unreachable
from tests.engine.memory_clusters import Trace


class Violation(AssertionError):
    """An invariant does not hold."""


class Delivery(Enum):
    """What becomes of a request that changes something."""

    DELIVERED = auto()
    LOST = auto()
    """It never arrives; no answer."""
    UNANSWERED = auto()
    """It is executed; the answer is lost."""
    LATE = auto()
    """It is executed later; no answer before."""
    DECLINED = auto()
    """It is refused."""


@dataclass(frozen=True)
class Rates:
    """How often something happens, per request; drawn per seed, so that many seeds have few.

    Attributes:
        tick: time passes: replication, applications, ACLs on their way to brokers.
        second_process: a second drctl acts.
        silence: a part stops to answer for some requests.
        meddling: between two attempts, a person removes drctl's ACLs from the plan's source.
    """

    tick: float = 0.2
    crash: float = 0
    second_process: float = 0
    silence: float = 0
    unread: float = 0
    lost: float = 0
    unanswered: float = 0
    late: float = 0
    declined: float = 0
    incident: float = 0
    meddling: float = 0


NO_FAULTS = Rates()


def drawn(random: Random) -> Rates:
    """Draw rates: each kind of fault is absent in half of the seeds."""

    def some(most: float) -> float:
        return 0.0 if random.random() < 0.5 else most * random.random()

    return Rates(
        tick=0.05 + 0.5 * random.random(),
        crash=some(0.03),
        second_process=some(0.01),
        silence=some(0.01),
        unread=some(0.02),
        lost=some(0.05),
        unanswered=some(0.05),
        late=some(0.05),
        declined=some(0.01),
        incident=some(0.006),
        meddling=some(0.5),
    )


@dataclass
class Faults(Trace):
    """Every request of every drctl process passes here; replaces the switches of `Trace`.

    Attributes:
        happens: called at each request: time passes, processes end, others act.
        late: executes a request later.
        muted: parts that do not answer, with the number of requests until they do again.
    """

    random: Random = field(default_factory=Random)
    rates: Rates = NO_FAULTS
    happens: Callable[[str], None] = lambda point: None
    late: Callable[[str, str, Callable[[], object]], None] = lambda what, how, do: do()
    muted: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def stop_faults(self) -> None:
        """No more faults; time still passes."""
        self.rates = replace(NO_FAULTS, tick=self.rates.tick)
        self.muted.clear()

    def note(self, line: str) -> None:
        """Add a line to the trace that a failing seed prints."""
        self.lines.append(line)

    def point(self, point: str) -> None:
        """A point at which anything may happen."""
        if not self.aside:
            self.happens(point)

    def look(self, what: str) -> None:
        if self.aside:
            return
        self.point(what)
        if what in self.silent or self._is_muted(what) or self._happens(self.rates.unread):
            self.note(f"  ? {what}: no answer")
            raise Unreachable(f"{what} did not answer within 3 s")

    def change(self, what: str, how: str, do: Callable[[], object]) -> bool:
        if self.aside:
            raise Violation(f"{what} was changed by something that only looks")
        if what == "people":
            do()
            return True
        self.announced(what)
        self.point(f"before {what}")
        delivery = (
            Delivery.LOST if what in self.silent or self._is_muted(what) else self.delivery(what)
        )
        if delivery is Delivery.LATE and what.startswith(("records of", "evidence")):
            # A copier's older transaction is aborted by the next copier; a file is written at once.
            delivery = Delivery.LOST
        if delivery is Delivery.LATE:
            self.late(what, how, do)
        elif delivery in (Delivery.DELIVERED, Delivery.UNANSWERED):
            do()
        text = "" if delivery is Delivery.DELIVERED else f" ({delivery.name.lower()})"
        self.note(f"  ! {what}: {how}{text}")
        self.point(f"after {what}")
        if delivery in (Delivery.LOST, Delivery.UNANSWERED, Delivery.LATE):
            raise Unknown(f"no answer from {what}")
        return delivery is not Delivery.DECLINED

    def delivery(self, what: str) -> Delivery:
        """Draw what becomes of a request."""
        rates, drawn = self.rates, self.random.random()
        for delivery, rate in (
            (Delivery.LOST, rates.lost),
            (Delivery.UNANSWERED, rates.unanswered),
            (Delivery.LATE, rates.late),
            (Delivery.DECLINED, rates.declined),
        ):
            drawn -= rate
            if drawn < 0:
                return delivery
        return Delivery.DELIVERED

    def _is_muted(self, what: str) -> bool:
        if what in self.muted:
            self.muted[what] -= 1
            if not self.muted[what]:
                del self.muted[what]
            return True
        if self._happens(self.rates.silence):
            self.muted[what] = self.random.randint(1, 40)
            return True
        return False

    def _happens(self, rate: float) -> bool:
        return rate > 0 and self.random.random() < rate
