"""The plan of a soak round, drawn from a seed: the same seed gives the same plan."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

PRIMARY, SECONDARY = "primary", "secondary"


class Out(StrEnum):
    """How the primary is lost."""

    PLANNED = "planned"
    KILLED = "killed"
    FROZEN = "frozen"


class Fault(StrEnum):
    """Faults of lab components and of drctl.

    Killed components are restarted at once, but one broker of several only after a while. A pause
    ends by itself. WAKE resumes a suspended primary during the failover.
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
"""Faults that need several brokers per cluster."""
ALIVE_ONLY = frozenset({Fault.PRIMARY, Fault.PRIMARY_BROKER, Fault.PAUSE})
"""Faults that need a running primary."""

LONGEST_S = 3.0


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault and its time.

    Attributes:
        at: which step of the plan it follows, from 0 for the first to 1 for the last.
        after_s: seconds since the journal announced that step.
        lasts_s: duration of a pause, or of a broker's downtime.
        node: number of that broker, from 1.
    """

    fault: Fault
    at: float
    after_s: float
    lasts_s: float = 0.0
    node: int = 0

    def step_of(self, steps: tuple[str, ...]) -> str:
        """The step after which the fault is injected."""
        return steps[min(int(self.at * len(steps)), len(steps) - 1)]


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The plan of a round.

    Attributes:
        backlog: records written to the primary while replication is stopped, before it is lost.
        policy: how reconcile handles safe unreplicated records.
        on_failover: faults during the failover.
        on_failback: faults during the failback.
        brokers: brokers per cluster.
    """

    seed: int
    out: Out
    backlog: int
    policy: str
    on_failover: tuple[Injection, ...]
    on_failback: tuple[Injection, ...]
    brokers: int = 1


def draw(seed: int, brokers: int = 1) -> RoundPlan:
    """Draw the plan of a seed; with several brokers, one is killed in each direction."""
    random = Random(seed)
    out = random.choice((Out.PLANNED, Out.PLANNED, Out.KILLED, Out.FROZEN))
    dead = ALIVE_ONLY if out is not Out.PLANNED else frozenset[Fault]()
    backlog = random.randint(50, 400)
    policy = random.choice(("copy", "quarantine"))
    on_failover = _injections(random, tuple(each for each in DRAWN_BY_STEP if each not in dead))
    if out is Out.FROZEN and random.random() < 0.5:
        on_failover = (*on_failover, Injection(Fault.WAKE, round(random.random(), 3), 0.0))
    on_failback = _injections(random, DRAWN_BY_STEP)
    if random.random() < 0.4:
        policy = random.choice(("export", "discard"))
    if brokers > 1:
        on_failover = (*on_failover, _one_broker(random, brokers, dead))
        on_failback = (*on_failback, _one_broker(random, brokers, frozenset()))
    return RoundPlan(seed, out, backlog, policy, on_failover, on_failback, brokers)


def _one_broker(random: Random, brokers: int, dead: frozenset[Fault]) -> Injection:
    """One broker of several, down for 1 to 20 s."""
    fault = random.choice([each for each in ONE_BROKER if each not in dead])
    at, after_s = round(random.random(), 3), round(random.uniform(0, LONGEST_S), 2)
    return Injection(
        fault, at, after_s, round(random.uniform(1, 20), 1), random.randint(1, brokers)
    )


def _injections(random: Random, faults: tuple[Fault, ...]) -> tuple[Injection, ...]:
    """One or two different faults."""
    chosen = random.sample(faults, random.randint(1, 2))
    found = [
        Injection(
            fault,
            round(random.random(), 3),
            round(random.uniform(0, LONGEST_S), 2),
            round(random.uniform(2, 9), 1) if fault is Fault.PAUSE else 0.0,
        )
        for fault in chosen
    ]
    return tuple(sorted(found, key=lambda injection: injection.at))
