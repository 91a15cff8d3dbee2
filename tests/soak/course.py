"""What happens in a round, drawn from its seed: the same seed gives the same course."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

PRIMARY, SECONDARY = "primary", "secondary"


class Out(StrEnum):
    """How the applications come to be on the secondary."""

    PLANNED = "planned"
    KILLED = "killed"
    FROZEN = "frozen"


class Fault(StrEnum):
    """What is done to the parts of the lab, and to drctl itself.

    Who is killed is started again at once, but one broker of several only after a while; a pause
    ends by itself; a primary that was given up because it hung wakes up in the middle of the
    failover.
    """

    DRCTL = "kill-drctl"
    PRIMARY = "kill-primary"
    SECONDARY = "kill-secondary"
    PRIMARY_BROKER = "kill-primary-broker"
    SECONDARY_BROKER = "kill-secondary-broker"
    CONNECT = "kill-connect"
    PAUSE = "pause-primary"
    WAKE = "wake-primary"


DRAWN_BY_STEP = (Fault.DRCTL, Fault.PRIMARY, Fault.SECONDARY, Fault.CONNECT, Fault.PAUSE)
ONE_BROKER = (Fault.PRIMARY_BROKER, Fault.SECONDARY_BROKER)
"""Where a cluster has several."""
ALIVE_ONLY = frozenset({Fault.PRIMARY, Fault.PRIMARY_BROKER, Fault.PAUSE})
"""Not while the primary is lost."""

LONGEST_S = 3.0


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault and its moment.

    Attributes:
        at: which step of the plan it follows, from 0 for the first to 1 behind the last.
        after_s: seconds since the journal announced that step.
        lasts_s: of a pause, or how long one broker of several is away.
        node: that broker's number, from 1.
    """

    fault: Fault
    at: float
    after_s: float
    lasts_s: float = 0.0
    node: int = 0

    def step_of(self, steps: tuple[str, ...]) -> str:
        """The step that it follows."""
        return steps[min(int(self.at * len(steps)), len(steps) - 1)]


@dataclass(frozen=True, slots=True)
class Course:
    """A round before it is played.

    Attributes:
        behind: records that the primary acknowledges while nothing is copied; then it is lost.
        policy: what becomes of records that only the primary has, and that harm no order.
        leaving: faults on the way out; returning: on the way home.
        brokers: of each cluster.
    """

    seed: int
    out: Out
    behind: int
    policy: str
    leaving: tuple[Strike, ...]
    returning: tuple[Strike, ...]
    brokers: int = 1


def draw(seed: int, brokers: int = 1) -> Course:
    """The course of this seed; where there are several brokers, one of them dies on each way."""
    random = Random(seed)
    out = random.choice((Out.PLANNED, Out.PLANNED, Out.KILLED, Out.FROZEN))
    dead = ALIVE_ONLY if out is not Out.PLANNED else frozenset[Fault]()
    behind = random.randint(50, 400)
    policy = random.choice(("copy", "quarantine"))
    leaving = _strikes(random, tuple(each for each in DRAWN_BY_STEP if each not in dead))
    if out is Out.FROZEN and random.random() < 0.5:
        leaving = (*leaving, Strike(Fault.WAKE, round(random.random(), 3), 0.0))
    returning = _strikes(random, DRAWN_BY_STEP)
    if random.random() < 0.4:
        policy = random.choice(("export", "discard"))
    if brokers > 1:
        leaving = (*leaving, _one_broker(random, brokers, dead))
        returning = (*returning, _one_broker(random, brokers, frozenset()))
    return Course(seed, out, behind, policy, leaving, returning, brokers)


def _one_broker(random: Random, brokers: int, dead: frozenset[Fault]) -> Strike:
    """Away for longer than its session lasts, or not."""
    fault = random.choice([each for each in ONE_BROKER if each not in dead])
    at, after_s = round(random.random(), 3), round(random.uniform(0, LONGEST_S), 2)
    return Strike(fault, at, after_s, round(random.uniform(1, 20), 1), random.randint(1, brokers))


def _strikes(random: Random, faults: tuple[Fault, ...]) -> tuple[Strike, ...]:
    """One or two different ones."""
    chosen = random.sample(faults, random.randint(1, 2))
    found = [
        Strike(
            fault,
            round(random.random(), 3),
            round(random.uniform(0, LONGEST_S), 2),
            round(random.uniform(2, 9), 1) if fault is Fault.PAUSE else 0.0,
        )
        for fault in chosen
    ]
    return tuple(sorted(found, key=lambda strike: strike.at))
