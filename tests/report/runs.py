"""Runs for reports: real plans, executed by the real executor with scripted kinds.

A scripted kind describes its step like the real one; its observations come from its part.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from drctl.engine.abandoning import abandon
from drctl.engine.entries import Entry
from drctl.engine.executing import Execution
from drctl.engine.kind import Description, Facts, Kind, Readback, State, Trait
from drctl.engine.ports import LinkReader, LinkWriter
from drctl.engine.run_state import first_head, read_run, seal, verify
from drctl.model.errors import Refused
from drctl.model.plan import Duty, Json, Plan, Step
from drctl.steps.registry import KINDS
from drctl.views.run_data import ReportData
from drctl.views.run_reading import report_data
from tests.engine.toggles import Crash, FastClock, MemoryJournal, NoWatcher, World

ADA = {"user": "ada", "host": "laptop-7"}
BOB = {"user": "bob", "host": "bastion-2"}
BEGAN = 1_772_720_407.0
"""2026-03-05 14:20:07 UTC."""


@dataclass(frozen=True)
class Part:
    """What a step observes.

    Attributes:
        looks: seconds that its check takes.
        takes: seconds until it is verified.
        dies: whether the process ends while it waits.
        stays: whether it cannot be rolled back.
    """

    message: str = "seen"
    facts: Json = field(default_factory=dict)
    intent: Json = field(default_factory=dict)
    looks: float = 0.2
    takes: float = 0.4
    end: State = State.DONE
    items: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    outstanding: str = ""
    refuses: Refused | None = None
    dies: bool = False
    leaves_changes: bool = False


Script = Mapping[str, Part]


@dataclass
class Stage:
    """The parts by step, in the order of the plan."""

    script: Script
    clock: FastClock
    until: float = 0

    def part(self, intent: Json) -> Part:
        return self.script.get(intent["part"], Part())


@dataclass(frozen=True)
class Played:
    """A real kind with scripted observations."""

    real: Kind
    stage: Stage

    @property
    def name(self) -> str:
        return self.real.name

    @property
    def traits(self) -> Trait:
        return self.real.traits

    def describe(self, settings: Json) -> Description:
        return self.real.describe(settings)

    def check(self, settings: Json, facts: Facts, look: LinkReader) -> Json:
        step = settings["part"]
        part = self.stage.script.get(step, Part())
        self.stage.clock.seconds += part.looks
        if part.refuses is not None:
            raise part.refuses
        return {**INTENTS.get(self.real.name, {}), **part.intent, "part": step}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        part = self.stage.part(intent)
        self.stage.until = self.stage.clock.seconds + part.takes
        return part.errors

    def verify(self, intent: Json, look: LinkReader) -> Readback:
        part, clock = self.stage.part(intent), self.stage.clock
        if self.stage.until - clock.seconds > 1e-6:
            if part.dies and self.stage.until - clock.seconds < part.takes / 2:
                raise Crash
            return Readback(State.WAITING, part.message, part.facts, part.items)
        facts = {**FACTS.get(self.real.name, {}), **part.facts}
        return Readback(part.end, part.message, facts, part.items, part.outstanding)

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        self.stage.clock.seconds += 0.7
        return ()

    def verify_undo(self, intent: Json, look: LinkReader) -> Readback:
        if self.stage.part(intent).leaves_changes:
            return Readback(State.FAILED, "the rules are still on broker 2", {}, ("broker 2",))
        return Readback(State.DONE, "as it was before")


_FENCE: Json = {"cluster": "", "topics": [], "stabilize_seconds": 2, "rules": [], "added": []}
INTENTS: Mapping[str, Json] = {
    "snapshot-state": {"clusters": {}},
    "fence-producers": _FENCE,
    "fence-consumers": _FENCE,
    "commit-offsets": {
        "cluster": "",
        "lines": [],
        "same": 0,
        "left_out": [],
        "rereads_at_most": None,
    },
}
FACTS: Mapping[str, Json] = {
    "drain": {"missing": 0},
    "reconcile": {"given_up": 0},
    "commit-offsets": {"positions": 0, "groups": 0, "same": 0, "rereads_at_most": None},
    "verify-clients": {"groups": 0, "moved": 0, "probed_endpoints": 0, "unknown": ""},
}
"""Facts that these steps always record; a part may replace them."""


def staged(plan: Plan) -> Plan:
    """Return the plan with a part for each step."""
    steps = (replace(s, settings={**s.settings, "part": s.id}) for s in plan.steps)
    return replace(plan, steps=tuple(steps))


class Run:
    """A run in progress: `play` starts or resumes it."""

    def __init__(self, plan: Plan, name: str = "20260305T142007Z-main") -> None:
        self.plan = staged(plan)
        self.notes = MemoryJournal(World(), run=name)
        self.clock = FastClock(BEGAN)

    def play(self, script: Script, who: Mapping[str, str] = ADA, stop_after: float = 1e9) -> "Run":
        stage = Stage(script, self.clock)
        self.clock.stop_after = self.clock.waited + stop_after
        kinds = {name: Played(kind, stage) for name, kind in KINDS.items()}
        world = World()
        look, writer = cast(LinkReader, world), cast(LinkWriter, world)
        engine = Execution(
            cast(Mapping[str, Kind], kinds), look, writer, self.notes, self.clock, NoWatcher()
        )
        try:
            if not self.entries:
                engine.start(self.plan, who)
            else:
                engine.resume(read_run(self.entries), who)
        except Crash:
            pass
        return self

    def leave(self, why: str, who: Mapping[str, str] = BOB) -> "Run":
        abandon(read_run(self.entries), why, who, self.notes, KINDS, self.clock)
        return self

    def rest(self, seconds: float) -> "Run":
        self.clock.seconds += seconds
        return self

    @property
    def entries(self) -> list[Entry]:
        return self.notes.entries

    @property
    def data(self) -> ReportData:
        lines = seal(self.entries, first_head(self.notes.run))
        return report_data(read_run(self.entries), verify(self.notes.run, lines))


PRINCIPALS = ("User:orders-app", "User:payments-app")
CONNECTORS = ("mm2-source", "mm2-checkpoint")


def planned(
    link: str = "main",
    ends: tuple[str, str] = ("primary", "secondary"),
    principals: tuple[str, ...] = PRINCIPALS,
    connectors: tuple[str, ...] = CONNECTORS,
    overrides: Mapping[str, str] | None = None,
) -> Plan:
    """Return a fixed plan: how plans are made from links does not matter for reports."""
    source, target = ends
    fenced = {"cluster": source, "principals": list(principals), "stabilize_seconds": 2}
    quiet = {"cluster": source}
    steps = (
        _preflight("planned", overrides or {}),
        Step("snapshot-state", "snapshot-state", {"clusters": list(ends), "connectors": []}, 30),
        Step("fence-producers", "fence-producers", fenced, 120),
        Step("drain", "drain", {"target": target}, 600),
        Step("wait-for-consumers", "quiesce-consumers", quiet, 20, Duty.OPTIONAL),
        Step("fence-consumers", "fence-consumers", fenced, 60),
        Step("quiesce-consumers", "quiesce-consumers", quiet, 60),
        *_opening(link, ends, connectors),
    )
    return Plan("failover-planned", link, source, target, steps, BASIS, overrides or {})


def unplanned() -> Plan:
    source, target = ends = ("primary", "secondary")
    fenced = {"cluster": source, "principals": list(PRINCIPALS), "stabilize_seconds": 2}
    steps = (
        _preflight("unplanned", {}),
        Step("snapshot-state", "snapshot-state", {"clusters": list(ends), "connectors": []}, 30),
        Step("fence-producers", "fence-producers", fenced, 15, Duty.BEST_EFFORT),
        Step("measure-loss", "measure-loss", {"source": source, "target": target}, 30),
        *_opening("main", ends, CONNECTORS),
    )
    return Plan("failover-unplanned", "main", source, target, steps, BASIS)


BASIS = {"topics": "12 topics, 96 partitions"}


def _preflight(mode: str, overrides: Mapping[str, str]) -> Step:
    return Step("preflight", "preflight", {"mode": mode, "overrides": dict(overrides)}, 30)


COMMIT = {"overrides": {}, "leave_out": False}


def _opening(link: str, ends: tuple[str, str], connectors: tuple[str, ...]) -> tuple[Step, ...]:
    source, target = ends
    return (
        Step("stop-replication", "stop-replication", {"connectors": list(connectors)}, 60),
        Step("commit-offsets", "commit-offsets", COMMIT | {"link": link, "cluster": target}, 30),
        Step("enable-writes", "enable-writes", {"cluster": target, "principals": []}, 60),
        *(
            Step(
                f"switch-endpoint-{number + 1}",
                "switch-endpoint",
                {"number": number, "kind": kind, "to": target, "from": source, "redirect": leaving},
                120,
            )
            for number, (kind, leaving) in enumerate((("dns", "looked-up"), ("haproxy", "cut")))
        ),
        Step("verify-clients", "verify-clients", {"source": source, "target": target}, 120),
    )


STOCK = Part(
    "primary: 96 partitions, 14 groups, secondary: 96 partitions, 0 groups",
    {"silent": [], "active_groups": {"primary": ["billing"], "secondary": []}},
    {
        "clusters": {
            "primary": {"cluster_id": "kF2aPrimary"},
            "secondary": {"cluster_id": "zQ9bSec"},
        }
    },
    looks=1.3,
    takes=0.1,
)
LINES = [
    [group, "orders", number, None, [1000 + number, -1, ""]]
    for group, count in (("billing", 12), ("shipping", 12), ("fraud-scoring", 6))
    for number in range(count)
]
OFFSETS = Part(
    "30 offsets of 3 groups committed and read back",
    {"positions": 30, "groups": 3, "same": 4, "rereads_at_most": 40, "left_out": []},
    {"lines": LINES, "rereads": {"billing": 38, "shipping": 2, "fraud-scoring": 0}},
    looks=2.2,
    takes=1.1,
)
WARNINGS = [
    "retention: orders: the oldest unreplicated record is deleted in 5 h",
    "endpoint-caches: dns: nobody can see how long clients keep an answer (not checked)",
    "connect: connect-2: it answers slowly",
]
GOOD: Script = {
    "preflight": Part(
        "all prechecks passed; 3 warnings", {"warnings": WARNINGS}, looks=3.1, takes=0
    ),
    "snapshot-state": STOCK,
    "fence-producers": Part(
        "every broker (3) enforces the ACLs; the end offsets of 96 partitions were stable for 2 s",
        takes=6.4,
    ),
    "drain": Part("every record is replicated", {"missing": 0}, takes=11.5),
    "wait-for-consumers": Part(
        "2 of 14 groups are active: billing, shipping", takes=30, items=("billing",)
    ),
    "fence-consumers": Part("every broker (3) enforces the ACLs", takes=3.5),
    "quiesce-consumers": Part("0 of 14 groups are active", takes=2.5),
    "stop-replication": Part("2 connectors stopped", takes=2),
    "commit-offsets": OFFSETS,
    "enable-writes": Part("a probe record was written to secondary and read back", takes=1),
    "switch-endpoint-1": Part("kafka.example.net points to secondary", takes=4),
    "switch-endpoint-2": Part("backend kafka sends clients to secondary", takes=1.5),
    "verify-clients": Part("every group (11) is active on secondary", takes=9),
}
LOST: Script = {
    **GOOD,
    "snapshot-state": replace(
        STOCK,
        message="primary does not answer, secondary: 96 partitions, 9 groups",
        facts={"silent": ["primary"], "active_groups": {}},
        looks=10.0,
    ),
    "fence-producers": Part(
        refuses=Refused("primary does not answer", "fence it before it returns"), looks=10
    ),
    "measure-loss": Part(
        "about 1,240 records (at least 12, at most 3,100) are probably not replicated",
        {"records": 1240, "at_least": 12, "at_most": 3_100, "seconds": 4.5},
        looks=0.1,
    ),
}


def done() -> Run:
    return Run(planned(overrides={"retention": "the tail is copied in minutes"})).play(GOOD)


def outstanding() -> Run:
    return Run(unplanned()).play(LOST)


def refused() -> Run:
    precheck = Refused(
        "replication-lag: orders: 1,204 records are not on the target",
        "wait until it is 0, or --override replication-lag=REASON",
    )
    return Run(planned()).play({**GOOD, "preflight": Part(refuses=precheck, looks=3)})


NO_PLACE = Refused(
    "offsets of 3 groups or partitions cannot be committed: fraud-scoring orders-3: no method has"
    " evidence",
    "see why: drctl offsets explain; to continue without them: --override"
    " groups-not-translated=REASON",
)


def rolled_back() -> Run:
    return Run(planned()).play({**GOOD, "commit-offsets": Part(refuses=NO_PLACE, looks=4)})


def partly_rolled_back() -> Run:
    fence = replace(GOOD["fence-producers"], leaves_changes=True)
    script = {**GOOD, "fence-producers": fence, "commit-offsets": Part(refuses=NO_PLACE, looks=4)}
    return Run(planned()).play(script)


def stopped() -> Run:
    dns = Part(
        "kafka.example.net still points to primary",
        takes=500,
        items=("ns1.example.net answers with primary", "ns2.example.net does not answer"),
        errors=("ns2.example.net: refused the update (REFUSED)",),
    )
    return Run(planned()).play({**GOOD, "switch-endpoint-1": dns})


def unknown() -> Run:
    missing = Part(
        "the tail cannot be compared: primary does not answer", end=State.UNKNOWN, takes=5
    )
    return Run(planned()).play({**GOOD, "drain": missing})


def interrupted() -> Run:
    slow = replace(GOOD["drain"], takes=400, message="12,400 records are not replicated yet")
    return Run(planned()).play({**GOOD, "drain": slow}, stop_after=25)


def lost() -> Run:
    dies = replace(GOOD["stop-replication"], takes=20, dies=True)
    return Run(planned()).play({**GOOD, "stop-replication": dies})


def resumed() -> Run:
    dies = replace(GOOD["stop-replication"], takes=8, dies=True)
    run = Run(planned()).play({**GOOD, "stop-replication": dies})
    return run.rest(5400).play(GOOD, BOB)


def abandoned() -> Run:
    return lost().rest(86_400).leave("the primary was scrapped")


ATTACK = (
    "<script>document.title='pwned'</script><img src='/leak' onerror=\"document.title='pwned'\">"
)
CONTROLS = "\ud800\x1b[2J\x07\u202e\x00\u200bend ]]> & | ` * _ [x](http://x)"


def late() -> Run:
    slow = Part("2 of 11 groups not active yet: billing", takes=500, items=("billing", "vat"))
    return Run(planned()).play({**GOOD, "verify-clients": slow})


def vast() -> Run:
    """Return a run with as many groups and partitions as the performance target has."""
    lines = [
        [f"group-{group}", f"topic-{number % 500}", number, None, [number, -1, ""]]
        for group in range(1000)
        for number in range(10)
    ]
    left_out = [f"group-{number} topic-7-3: no method has evidence" for number in range(400)]
    offsets = Part(
        "10,000 offsets of 1,000 groups committed and read back",
        {"positions": 10_000, "same": 0, "rereads_at_most": 1_234_567, "left_out": left_out},
        {"lines": lines, "rereads": {f"group-{number}": number for number in range(1000)}},
        items=tuple(left_out),
        outstanding=f"groups or partitions left out: 400, for example {left_out[0]}",
    )
    prechecks = replace(GOOD["preflight"], facts={"warnings": WARNINGS * 200})
    return Run(unplanned()).play({**LOST, "preflight": prechecks, "commit-offsets": offsets})


def hostile() -> Run:
    bad = f"{ATTACK}{CONTROLS}"
    plan = planned(
        link=bad,
        ends=(f"source {bad}", f"target {bad}"),
        principals=(f"User:{bad}", "User:" + "x" * 300),
        connectors=(bad,),
        overrides={bad: bad},
    )
    part = Part(bad, {"warnings": [bad, WARNINGS[0]]}, items=(bad,) * 30, outstanding=bad)
    lines = [[f"group {bad}", bad, 0, None, [1, -1, ""]]]
    offsets = Part(
        bad,
        {"positions": 1, "groups": 1, "same": 0, "rereads_at_most": 1, "left_out": [bad]},
        {"lines": lines},
        errors=(bad,),
        outstanding=bad,
    )
    script = {
        **GOOD,
        "preflight": part,
        "snapshot-state": replace(STOCK, facts={"silent": [bad]}),
        "commit-offsets": offsets,
        "verify-clients": Part(bad, items=(bad, "y" * 500), end=State.FAILED),
    }
    return Run(plan).play(script, {"user": bad, "host": bad})


EVERY = {
    "done": done,
    "outstanding": outstanding,
    "refused": refused,
    "rolled-back": rolled_back,
    "partly-rolled-back": partly_rolled_back,
    "stopped": stopped,
    "unknown": unknown,
    "interrupted": interrupted,
    "lost": lost,
    "resumed": resumed,
    "abandoned": abandoned,
    "late": late,
    "hostile": hostile,
}
