"""The primary is lost while replication lags, and comes back: which records never made it?

The truth is gathered beside drctl: which rows the primary acknowledged, what plain consumers find
in both topics, and nothing else. drctl's answer has to name exactly these records.
"""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drctl.lab.environment import write_environment
from drctl.lab.flights import flights
from drctl.lab.loads import Loads, acknowledged_rows
from drctl.lab.reading import Position, count_of, read_topic
from drctl.lab.scenarios.stage import Ending, Stage
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped

BEFORE = 50_000
RATE = 2_000
BEHIND = 4_000
AFTER = 3_000
WAIT_S = 60


def play(stage: Stage) -> Ending:
    """Lose the primary, go on on the secondary, get the primary back, and ask drctl.

    Raises:
        Stopped: a part of the lab did not do what the story needs.
    """
    topic = stage.lab.parts.settings.mirrored
    write_environment(stage.lab.parts, stage.config)
    _replicate_everything(stage, topic)
    _fall_behind_and_die(stage, topic)
    replicated = read_topic(stage.lab.cluster("secondary"), topic)
    _go_on_elsewhere(stage, topic)
    stage.tell("the primary comes back")
    stage.lab.start("primary")
    stage.tell("drctl gap: which of its records are not on the secondary?\n")
    answer = stage.gap(stage.folder / "gap")
    truth = _truth(stage, topic, replicated)
    return _compare(stage, truth, answer)


def _replicate_everything(stage: Stage, topic: str) -> None:
    loads = Loads(stage.lab)
    stage.tell(f"{BEFORE:,} real records (flights of 2013) go into the primary")
    loads.run(loads.spec(topic=topic, count=BEFORE))
    stage.tell("MirrorMaker 2 copies them to the secondary")
    target = stage.lab.cluster("secondary")
    if not Patience.of(WAIT_S).wait_until(lambda: count_of(target, topic) >= BEFORE):
        raise Stopped(f"MirrorMaker 2 did not copy {BEFORE} records in {WAIT_S} s")


def _fall_behind_and_die(stage: Stage, topic: str) -> None:
    loads = Loads(stage.lab)
    stage.tell(f"an application goes on writing, {RATE:,} records a second")
    loads.start(loads.spec(topic=topic, rate=RATE))
    _await_acks(loads, BEFORE + BEHIND)
    stage.tell("replication stops: from here on the secondary lags")
    stage.lab.replicate(False)
    seen = loads.state("primary")["acknowledged"]
    _await_acks(loads, seen + BEHIND)
    stage.tell("the primary is lost (SIGKILL), in the middle of writes")
    stage.lab.signal("primary", signal.SIGKILL)
    state = loads.stop("primary")
    stage.tell(
        f"{state['acknowledged']:,} records were acknowledged; of {state['failed']:,} more nobody "
        "knows"
    )


def _await_acks(loads: Loads, number: int) -> None:
    if not Patience.of(WAIT_S).wait_until(lambda: loads.state("primary")["acknowledged"] >= number):
        raise Stopped(f"the primary did not acknowledge {number} records in {WAIT_S} s")


def _go_on_elsewhere(stage: Stage, topic: str) -> None:
    loads = Loads(stage.lab)
    stage.tell(f"the application moves to the secondary and writes {AFTER:,} records there")
    loads.run(loads.spec("secondary", topic=topic, count=AFTER))


@dataclass(frozen=True, slots=True)
class Truth:
    """What an answer is held against.

    Attributes:
        missing: positions on the primary of the records that the secondary never got.
        acknowledged: how many records the primary had acknowledged.
        promised: how many of the missing ones it had acknowledged.
    """

    missing: frozenset[Position]
    acknowledged: int
    promised: int


def _truth(stage: Stage, topic: str, replicated: Mapping[Position, bytes]) -> Truth:
    primary = read_topic(stage.lab.cluster("primary"), topic)
    acks = acknowledged_rows(Loads(stage.lab).folder("primary"), topic)
    values = {row.number: row.value for row in flights()}
    for position, number in acks.items():
        if primary.get(position) != values[number]:
            raise Stopped(f"the primary lost row {number}, which it had acknowledged at {position}")
    there = set(replicated.values())
    missing = frozenset(p for p, value in primary.items() if value not in there)
    return Truth(missing, len(acks), len(missing & acks.keys()))


def _compare(stage: Stage, truth: Truth, answer: Mapping[str, Any]) -> Ending:
    named = frozenset(
        (partition["partition"], offset)
        for topic in answer["topics"]
        for partition in topic["partitions"]
        for first, last in partition["ranges"]
        for offset in range(first, last + 1)
    )
    page = stage.folder / "gap" / "gap.html"
    counted = answer["totals"]["unreplicated"]
    true = (
        answer["complete"]
        and answer["exit_code"] == 1
        and bool(truth.missing)
        and named == truth.missing
        and counted == len(truth.missing)
    )
    said = (
        f"the primary had acknowledged {truth.acknowledged:,} records; {len(truth.missing):,} of "
        f"its records never reached the secondary ({truth.promised:,} of them acknowledged)"
    )
    if true:
        return Ending(True, f"True: {said}. drctl gap named exactly these.", page)
    wrong = f"{len(named - truth.missing)} too many, {len(truth.missing - named)} not found"
    return Ending(False, f"WRONG: {said}. drctl gap named {len(named):,}: {wrong}.", page)
