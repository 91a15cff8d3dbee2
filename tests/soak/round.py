"""A round: running applications, failover and failback with faults, then judgement.

It knows drctl only by its exit codes, documents and journal.
"""

import json
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from confluent_kafka import KafkaException

from drctl.lab.cluster import count_of
from drctl.lab.lab import Lab
from drctl.model.errors import DrctlError, Stopped
from drctl.reconcile.policy import QUARANTINE
from tests.soak.engineer import Attempt, Engineer
from tests.soak.evidence import exported, gathered, reconciled
from tests.soak.fault_injection import Injected, Injector, journal_of
from tests.soak.judging import Judgement, judge
from tests.soak.reading import held, members_of, position
from tests.soak.round_plan import PRIMARY, SECONDARY, Injection, Out, RoundPlan
from tests.soak.world import World, world

GRACE = ("--wait-for-consumers", "2s")
GIVEN_UP = "source-alive=it hung; that it answers again changes nothing"
NEW_IDS = (
    "--override",
    "producer-ids-collide=applications begin a new producer wherever they are led",
)
"""A failover from a dead primary advances no producer ids: both clusters may issue the same ids
next."""


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of acknowledged records.

    Attributes:
        work: before the failover.
        away: on the secondary.
        after_failback: on the primary again; with 0 there is no failback.
    """

    work: int = 300
    away: int = 200
    after_failback: int = 150


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a round.

    Attributes:
        judgement: None if the round was not completed.
        failure: why it was not; empty if it was.
        rejoined: clients that had to rejoin their group.
    """

    plan: RoundPlan
    folder: Path
    failover_s: float
    failback_s: float
    injected: tuple[Injected, ...]
    attempts: tuple[Attempt, ...]
    judgement: Judgement | None
    failure: str = ""
    rejoined: int = 0

    @property
    def good(self) -> bool:
        """Whether all promises were kept, and no command of drctl was at fault."""
        right = self.judgement is not None and not self.judgement.wrong
        return right and not self.failure and not any(each.wrong for each in self.attempts)


class Round:
    """One plan on a lab."""

    def __init__(
        self,
        plan: RoundPlan,
        folder: Path,
        stopping: threading.Event,
        size: Size | None = None,
        leg_s: float = 600,
    ) -> None:
        self._course = plan
        self._folder = folder
        self._stopping = stopping
        self._size = size or Size()
        self._engineer = Engineer(folder, stopping, leg_s)
        self._struck: list[Injected] = []
        self._seconds: dict[str, float] = {}

    def play(self, lab: Lab) -> Result:
        """Run all of it; failures are in the result."""
        judgement, failure = None, ""
        made: World | None = None
        try:
            with world(lab, self._folder, f"soak{uuid4().hex[:8]}", self._stopping) as made:
                judgement = self._played(made)
        except DrctlError as error:
            failure = error.message
        except KafkaException as error:
            failure = f"a cluster did not answer the soak test: {error}"
        reported = [failure, *(made.failures if made else ())]
        return Result(
            self._course,
            self._folder,
            self._seconds.get(SECONDARY, 0.0),
            self._seconds.get(PRIMARY, 0.0),
            tuple(self._struck),
            tuple(self._engineer.attempts),
            judgement,
            "; ".join(filter(None, reported)),
            sum(each.rejoined for each in made.members) if made else 0,
        )

    def _played(self, at: World) -> Judgement:
        size = self._size
        for each in at.people:
            each.start()
        at.write_more(PRIMARY, size.work)
        at.wait("every group reads", lambda: all(m.committed(PRIMARY) > 0 for m in at.members))
        copied = at.cluster(SECONDARY)
        at.wait("MirrorMaker 2 copies", lambda: count_of(copied, at.topic) >= size.work // 2)
        self._fail_over(at)
        at.write_more(SECONDARY, size.away)
        serving = PRIMARY if size.after_failback else SECONDARY
        if size.after_failback:
            self._fail_back(at)
            at.write_more(PRIMARY, size.after_failback)
        self._quiesce(at, serving)
        code, answer = self._engineer.type("gap", "--scope", "full", "--link", at.name)
        if code not in (0, 1):
            raise Stopped(f"the last drctl gap ended with exit code {code}")
        # A frozen source cannot be fenced: what groups read there later is not in any translation.
        free = (SECONDARY,) if self._course.out is Out.FROZEN else ()
        return judge(gathered(at, self._engineer.runs, json.loads(answer), serving, free))

    def _fail_over(self, at: World) -> None:
        plan = self._course
        if plan.out is Out.PLANNED:
            self._lead(at, ("failover", *GRACE, *NEW_IDS), plan.on_failover, SECONDARY)
            return
        lose = signal.SIGKILL if plan.out is Out.KILLED else signal.SIGSTOP
        at.lab.signal("connect", signal.SIGSTOP)
        try:
            at.write_more(PRIMARY, plan.backlog)
            at.lab.signal(PRIMARY, lose)
        finally:
            at.lab.signal("connect", signal.SIGCONT)
        words = ("failover", "--mode", "unplanned", *GRACE, "--override", GIVEN_UP, *NEW_IDS)
        self._lead(at, words, plan.on_failover, SECONDARY)

    def _fail_back(self, at: World) -> None:
        plan = self._course
        at.lab.start(PRIMARY)
        # `discard` requires topic names.
        named = ("--topic", f"{at.topic}=discard")
        policy = named if plan.policy == "discard" else ("--policy", plan.policy)
        words = ("failback", *policy, "--conflicting", "quarantine", *GRACE, *NEW_IDS)
        if plan.policy != "copy":
            self._lead(at, words, plan.on_failback, PRIMARY)
            return
        # Records written during reconcile could be newer than a copied record of their key.
        for each in at.writers:
            if not each.rest():
                raise Stopped(f"{each.name} does not become idle")
        try:
            self._lead(at, words, plan.on_failback, PRIMARY, lambda: self._resume(at))
        finally:
            for each in at.writers:
                each.resume()

    def _resume(self, at: World) -> None:
        """Let applications write again once records are reconciled."""
        if all(each.resting for each in at.writers) and self._has_done("reconcile"):
            for each in at.writers:
                each.resume()

    def _has_done(self, step: str) -> bool:
        newest = sorted(self._engineer.runs.glob("*"))[-1:]
        entries = (entry for run in newest for entry in journal_of(run))
        return any(e["entry"] == "done" and e["step"] == step for e in entries)

    def _lead(
        self,
        at: World,
        words: tuple[str, ...],
        injections: tuple[Injection, ...],
        wanted: str,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        runs = self._engineer.runs
        injector = Injector(at.lab, runs, frozenset(each.name for each in runs.glob("*")))
        began = time.monotonic()
        try:
            with injector.waiting_for(injections):
                self._engineer.lead(words, injector, meanwhile)
        finally:
            self._struck += injector.injected
            self._seconds[wanted] = time.monotonic() - began
        if injector.failures:
            raise Stopped(f"the lab was not repaired: {'; '.join(injector.failures)}")
        if at.endpoint.cluster().name != wanted:
            raise Stopped(f"drctl {words[0]} did not switch the endpoint to the {wanted}")

    def _quiesce(self, at: World, serving: str) -> None:
        """Stop writing, and wait until everything is read and replicated."""
        for writer in at.writers:
            if not writer.stop():
                raise Stopped(f"{writer.name} does not stop")
        here = at.cluster(serving)
        end, admin = count_of(here, at.topic), here.admin()
        backlog = {each.group: end for each in at.members}

        def read() -> bool:
            backlog.update({group: end - position(admin, group, at.topic) for group in backlog})
            return all(records <= 0 for records in backlog.values())

        try:
            at.wait(f"every group reads to the end of the {serving}", read)
        except Stopped as error:
            late = [
                f"{group} is missing {records} and has {members_of(admin, group)} members"
                for group, records in backlog.items()
                if records > 0
            ]
            raise Stopped("; ".join((error.message, *late))) from error
        if serving == PRIMARY:
            self._await_copies(at)
        for member in at.members:
            if not member.stop():
                raise Stopped(f"the member of {member.group} does not stop")

    def _await_copies(self, at: World) -> None:
        away = at.cluster(SECONDARY)
        values = {each.value for each in held(at.cluster(PRIMARY), at.topic)}
        runs = self._engineer.runs
        values -= {each.value for each in held(away, QUARANTINE + at.topic)}
        values -= exported(runs)
        discarded = reconciled(runs).get("discard", 0)

        def copied() -> bool:
            return len(values - {each.value for each in held(away, at.topic)}) <= discarded

        at.wait("MirrorMaker 2 copies to the secondary again", copied)
