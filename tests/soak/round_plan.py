"""The plan of a soak round, drawn from a seed: the same seed gives the same plan."""

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

PRIMARY, SECONDARY = "primary", "secondary"
APPLICATIONS, DRCTL, CONNECT = "applications", "drctl", "connect"


class Out(StrEnum):
    """How the primary is lost."""

    PLANNED = "planned"
    KILLED = "killed"
    FROZEN = "frozen"


class Back(StrEnum):
    """How the primary is used again.

    REBUILD: its topics are lost. RECONCILE: `drctl reconcile` runs before the failback.
    """

    FAILBACK = "failback"
    RECONCILE = "reconcile"
    REBUILD = "rebuild"


class Way(StrEnum):
    """Direction of packets: to the cluster or to Connect, back, or both."""

    BOTH = "both-ways"
    TO = "to"
    BACK = "back"


class Fault(StrEnum):
    """Faults of lab components, of drctl and of what connects them.

    Killed components are restarted at once, but one broker of several only after a while. Faults
    that last end by themselves. WAKE resumes a suspended primary during the failover. SECOND is
    another engineer, on another host, who continues or repeats the command.
    """

    DRCTL = "kill-drctl"
    PRIMARY = "kill-primary"
    SECONDARY = "kill-secondary"
    PRIMARY_BROKER = "kill-primary-broker"
    SECONDARY_BROKER = "kill-secondary-broker"
    CONNECT = "kill-connect"
    PAUSE = "pause-primary"
    WAKE = "wake-primary"
    FREEZE_DRCTL = "freeze-drctl"
    FREEZE_CONNECT = "freeze-connect"
    SECOND = "second-operator"
    ROLL_PRIMARY = "roll-primary"
    ROLL_SECONDARY = "roll-secondary"
    PARTITION = "partition"
    LOSS = "packet-loss"
    SLOW = "slow-line"
    DRCTL_CLOCK = "clock-of-drctl"
    PRIMARY_CLOCK = "clock-of-primary"
    SECONDARY_CLOCK = "clock-of-secondary"
    PRIMARY_DISK = "full-disk-primary"
    SECONDARY_DISK = "full-disk-secondary"


ONE_BROKER = (Fault.PRIMARY_BROKER, Fault.SECONDARY_BROKER)
"""Faults that need several brokers per cluster."""
ROLLS = (Fault.ROLL_PRIMARY, Fault.ROLL_SECONDARY)
NETWORK = (Fault.PARTITION, Fault.LOSS, Fault.SLOW)
BROKER_CLOCKS = frozenset({Fault.PRIMARY_CLOCK, Fault.SECONDARY_CLOCK})
CLOCKS = (Fault.DRCTL_CLOCK, Fault.PRIMARY_CLOCK, Fault.SECONDARY_CLOCK)
DISKS = (Fault.PRIMARY_DISK, Fault.SECONDARY_DISK)
SANDBOXED = frozenset({*NETWORK, *CLOCKS, *DISKS})
"""Faults that need namespaces."""
DRAWN_BY_STEP = tuple(each for each in Fault if each not in (*ONE_BROKER, Fault.WAKE))
ALIVE_ONLY = frozenset(
    {
        Fault.PRIMARY,
        Fault.PRIMARY_BROKER,
        Fault.PAUSE,
        Fault.ROLL_PRIMARY,
        Fault.PRIMARY_CLOCK,
        Fault.PRIMARY_DISK,
    }
)
"""Faults that need a running primary."""
LINES = (
    *((DRCTL, there) for there in (PRIMARY, SECONDARY, CONNECT)),
    *((CONNECT, there) for there in (PRIMARY, SECONDARY)),
    *((APPLICATIONS, there) for there in (PRIMARY, SECONDARY)),
)
"""Who connects to whom."""

LONGEST_S = 3.0
LASTS_S = {
    Fault.PAUSE: (2, 9),
    Fault.FREEZE_DRCTL: (1, 12),
    Fault.FREEZE_CONNECT: (2, 12),
    Fault.PARTITION: (2, 20),
    Fault.LOSS: (5, 20),
    Fault.SLOW: (5, 20),
    Fault.DRCTL_CLOCK: (10, 60),
    Fault.PRIMARY_CLOCK: (5, 20),
    Fault.SECONDARY_CLOCK: (5, 20),
    Fault.PRIMARY_DISK: (1, 6),
    Fault.SECONDARY_DISK: (1, 6),
}
"""Shortest and longest duration."""
SHARES = (5, 10, 25)
KBITS = (64, 256, 1024)
CLOCK_S = 600
LEG_S = 600.0


@dataclass(frozen=True, slots=True)
class Injection:
    """A fault and its time.

    Attributes:
        at: which step of the plan it follows, from 0 for the first to 1 for the last.
        after_s: seconds since the journal announced that step.
        lasts_s: duration, if it lasts.
        node: number of the broker, from 1.
        line: who connects to whom, for faults of the network.
        way: direction in which packets are lost.
        amount: lost packets in percent, kbit/s, or seconds that the clock is ahead.
    """

    fault: Fault
    at: float
    after_s: float
    lasts_s: float = 0.0
    node: int = 0
    line: tuple[str, str] = ("", "")
    way: Way = Way.BOTH
    amount: int = 0

    def step_of(self, steps: tuple[str, ...]) -> str:
        """The step after which the fault is injected."""
        return steps[min(int(self.at * len(steps)), len(steps) - 1)]

    def __str__(self) -> str:
        """Name it with its component or line."""
        words = [f"{self.fault}-{self.node}" if self.node else str(self.fault)]
        if self.fault in NETWORK:
            words.append("-".join(self.line))
        if self.fault is Fault.PARTITION:
            words.append(self.way)
        if self.amount:
            words.append(f"{self.amount:+}" if self.fault in CLOCKS else str(self.amount))
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Work:
    """What the applications of a round do.

    Attributes:
        transactional: whether a writer uses transactions, and aborts some.
        new_protocol: whether a group uses the protocol of KIP-848.
        compacted: whether another writer updates keys of a compacted topic.
    """

    transactional: bool = False
    new_protocol: bool = False
    compacted: bool = False

    def __str__(self) -> str:
        """List what is not in every round."""
        named = {
            "transactions": self.transactional,
            "KIP-848": self.new_protocol,
            "compacted": self.compacted,
        }
        return "+".join(name for name, there in named.items() if there) or "plain"


PLAIN = Work()


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """The plan of a round.

    Attributes:
        backlog: records written to the primary while replication is stopped, before it is lost.
        policy: how reconcile handles safe unreplicated records.
        on_failover: faults during the failover.
        on_failback: faults during the failback.
        brokers: brokers per cluster.
        back: how the primary is used again.
        left_out: drawn faults that are not possible here.
    """

    seed: int
    out: Out
    backlog: int
    policy: str
    on_failover: tuple[Injection, ...]
    on_failback: tuple[Injection, ...]
    brokers: int = 1
    back: Back = Back.FAILBACK
    work: Work = PLAIN
    left_out: tuple[Injection, ...] = ()

    @property
    def leg_s(self) -> float:
        """Time limit of a leg: longer if a broker's clock is set back.

        A broker that lost a connection while its clock was ahead may reconnect only when it again
        shows that time: until then a coordinator may be unable to end transactions.
        """
        drawn = {each.fault for each in (*self.on_failover, *self.on_failback)}
        return LEG_S + (CLOCK_S if drawn & BROKER_CLOCKS else 0)

    def without(self, faults: frozenset[Fault]) -> "RoundPlan":
        """Leave out faults that are not possible here."""
        drawn = (*self.on_failover, *self.on_failback)
        return replace(
            self,
            on_failover=tuple(each for each in self.on_failover if each.fault not in faults),
            on_failback=tuple(each for each in self.on_failback if each.fault not in faults),
            left_out=tuple(each for each in drawn if each.fault in faults),
        )


def draw(seed: int, brokers: int = 1) -> RoundPlan:
    """Draw the plan of a seed; with several brokers, one of them fails in each direction."""
    random = Random(seed)
    out = random.choice((Out.PLANNED, Out.PLANNED, Out.KILLED, Out.FROZEN))
    dead = ALIVE_ONLY if out is not Out.PLANNED else frozenset[Fault]()
    backlog = random.randint(50, 400)
    policy = random.choice(("copy", "quarantine", "copy", "quarantine", "export", "discard"))
    # A planned failover leaves nothing to reconcile.
    before = Back.FAILBACK if out is Out.PLANNED else Back.RECONCILE
    back = random.choice((*(Back.FAILBACK,) * 3, before, Back.REBUILD))
    work = Work(*(random.random() < share for share in (0.5, 0.5, 0.3)))
    on_failover = _injections(random, brokers, dead)
    if out is Out.FROZEN and random.random() < 0.5:
        on_failover = (*on_failover, Injection(Fault.WAKE, round(random.random(), 3), 0.0))
    on_failback = _injections(random, brokers, frozenset())
    if brokers > 1:
        on_failover = (*on_failover, _one_broker(random, brokers, dead))
        on_failback = (*on_failback, _one_broker(random, brokers, frozenset()))
    return RoundPlan(
        seed, out, backlog, policy, on_failover, on_failback, brokers, back=back, work=work
    )


def _one_broker(random: Random, brokers: int, dead: frozenset[Fault]) -> Injection:
    """One broker of several, down for 1 to 20 s; or each of them is restarted in turn."""
    fault = random.choice([each for each in (*ONE_BROKER, *ROLLS) if each not in dead])
    at, after_s = round(random.random(), 3), round(random.uniform(0, LONGEST_S), 2)
    if fault in ROLLS:
        return Injection(fault, at, after_s)
    return Injection(
        fault, at, after_s, round(random.uniform(1, 20), 1), random.randint(1, brokers)
    )


def _injections(random: Random, brokers: int, dead: frozenset[Fault]) -> tuple[Injection, ...]:
    """One to three different faults."""
    possible = [each for each in DRAWN_BY_STEP if each not in dead]
    lines = [line for line in LINES if not (dead and PRIMARY in line)]
    chosen = random.sample(possible, random.randint(1, 3))
    found = [
        _detailed(
            random,
            Injection(fault, round(random.random(), 3), round(random.uniform(0, LONGEST_S), 2)),
            brokers,
            lines,
        )
        for fault in chosen
    ]
    return tuple(sorted(found, key=lambda injection: injection.at))


def _detailed(
    random: Random, bare: Injection, brokers: int, lines: list[tuple[str, str]]
) -> Injection:
    """Draw what only some faults have."""
    fault = bare.fault
    if fault in LASTS_S:
        bare = replace(bare, lasts_s=round(random.uniform(*LASTS_S[fault]), 1))
    if fault in NETWORK:
        bare = replace(bare, line=random.choice(lines))
    if fault is Fault.PARTITION:
        return replace(bare, way=random.choice(tuple(Way)))
    if fault is Fault.LOSS:
        return replace(bare, amount=random.choice(SHARES))
    if fault is Fault.SLOW:
        return replace(bare, amount=random.choice(KBITS))
    if fault in CLOCKS:
        bare = replace(bare, amount=random.choice((CLOCK_S, -CLOCK_S)))
    if fault in (*DISKS, *BROKER_CLOCKS):
        return replace(bare, node=random.randint(1, brokers))
    return bare
