"""A round: running applications, failover and failback with faults, then judgement.

It knows drctl only by its exit codes, documents and journal.
"""

import json
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from confluent_kafka import KafkaException

from drctl.lab.cluster import count_of
from drctl.lab.lab import Lab
from drctl.model.errors import DrctlError, ExitCode, Stopped
from drctl.reconcile.policy import QUARANTINE
from tests.soak.engineer import Attempt, Engineer, abort_suggested
from tests.soak.evidence import exported, gathered, reconciled
from tests.soak.fault_injection import Injected, Injector
from tests.soak.judging import Judgement, judge
from tests.soak.reading import held, members_of, missing
from tests.soak.round_plan import PRIMARY, SECONDARY, Back, Injection, Out, RoundPlan
from tests.soak.sandbox import Sandbox
from tests.soak.world import World, world

GRACE = ("--wait-for-consumers", "2s")
GIVEN_UP = "source-alive=it hung; that it answers again changes nothing"
NEW_IDS = (
    "--override",
    "producer-ids-collide=applications begin a new producer wherever they are led",
)
"""A failover from a dead primary advances no producer ids: both clusters may issue the same ids
next."""


_GAPS = 10
"""How often a comparison may meet an open transaction."""


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of acknowledged records.

    Attributes:
        work: before the failover.
        away: on the secondary.
        after_failback: on the primary again; with 0 there is no failback.
    """

    work: int = 200
    away: int = 120
    after_failback: int = 80


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a round.

    Attributes:
        seconds: by phase.
        judgement: None if the round was not completed.
        failure: why it was not; empty if it was.
        rejoined: clients that had to rejoin their group.
    """

    plan: RoundPlan
    folder: Path
    seconds: Mapping[str, float]
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
        leg_s: float | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._course = plan
        self._sandbox = sandbox
        self._gone: frozenset[str] | None = None
        self._folder = folder
        self._stopping = stopping
        self._size = size or Size()
        self._engineer = Engineer(folder, stopping, leg_s or plan.leg_s)
        self._struck: list[Injected] = []
        self._seconds: dict[str, float] = {}
        self._phase, self._entered = "", 0.0

    def play(self, lab: Lab) -> Result:
        """Run all of it; failures are in the result."""
        judgement, failure = None, ""
        self._enter("setup")
        made: World | None = None
        try:
            name = f"soak{uuid4().hex[:8]}"
            with world(lab, self._folder, name, self._stopping, self._course.work) as made:
                judgement = self._played(made)
                self._enter("cleanup")
        except DrctlError as error:
            failure = error.message
        except KafkaException as error:
            failure = f"a cluster did not answer the soak test: {error}"
        self._enter("")
        reported = [failure, *(made.failures if made else ())]
        return Result(
            self._course,
            self._folder,
            self._seconds,
            tuple(self._struck),
            tuple(self._engineer.attempts),
            judgement,
            "; ".join(filter(None, reported)),
            sum(each.rejoined for each in made.members) if made else 0,
        )

    def _played(self, at: World) -> Judgement:
        size = self._size
        self._enter("work")
        for each in at.people:
            each.start()
        at.write_more(PRIMARY, size.work)
        at.wait("every group reads", lambda: all(m.committed(PRIMARY) > 0 for m in at.members))
        copied = at.cluster(SECONDARY)
        at.wait("MirrorMaker 2 copies", lambda: count_of(copied, at.topic) >= size.work // 2)
        self._enter("failover")
        self._fail_over(at)
        self._enter("away")
        at.write_more(SECONDARY, size.away)
        serving = PRIMARY if size.after_failback else SECONDARY
        if size.after_failback:
            self._enter("failback")
            self._fail_back(at)
            self._enter("after")
            at.write_more(PRIMARY, size.after_failback)
        self._enter("quiesce")
        self._quiesce(at, serving)
        self._enter("judgement")
        code, answer = self._engineer.type("gap", "--scope", "full", "--link", at.name)
        if code not in (0, 1):
            raise Stopped(f"the last drctl gap ended with exit code {code}")
        # A frozen source cannot be fenced: what groups read there later is not in any translation.
        free = (SECONDARY,) if self._course.out is Out.FROZEN else ()
        runs, document = self._engineer.runs, json.loads(answer)
        return judge(gathered(at, runs, document, serving, free, self._gone))

    def _enter(self, phase: str) -> None:
        """Begin a phase; the last one ends."""
        now = time.monotonic()
        if self._phase:
            self._seconds[self._phase] = now - self._entered
        self._phase, self._entered = phase, now

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
        if plan.back is Back.REBUILD:
            self._empty_primary(at)
            self._engineer.empty = lambda _name: self._empty_primary(at)
            self._lead(at, ("failback", "--rebuild", *GRACE, *NEW_IDS), plan.on_failback, PRIMARY)
            return
        # `discard` requires topic names.
        named = tuple(word for t in at.topics for word in ("--topic", f"{t}=discard"))
        policy = named if plan.policy == "discard" else ("--policy", plan.policy)
        policy = (*policy, "--conflicting", "quarantine")
        words = ("failback", *policy, *GRACE, *NEW_IDS)
        if plan.policy != "copy":
            self._reconcile(at, policy)
            self._lead(at, words, plan.on_failback, PRIMARY)
            return
        # Records written during reconcile could be newer than a copied record of their key.
        for each in at.all_writers:
            if not each.rest():
                raise Stopped(f"{each.name} does not become idle")
        try:
            self._reconcile(at, policy)
            self._lead(at, words, plan.on_failback, PRIMARY, lambda: self._resume(at))
        finally:
            for each in at.all_writers:
                each.resume()

    def _empty_primary(self, at: World) -> None:
        """Delete the primary's topics, as if its disks were new; note what only it held."""
        primary, away = at.cluster(PRIMARY), at.cluster(SECONDARY)
        gone: set[str] = set()
        for topic in at.topics:
            # A transaction may still be open; records of others that follow it were acknowledged.
            gone |= {each.value for each in held(primary, topic, committed=False)}
            gone -= {each.value for each in held(away, topic)}
        admin = primary.admin()
        for done in admin.delete_topics(list(at.topics), operation_timeout=20).values():
            done.result()
        at.wait(
            "the primary's topics are deleted",
            lambda: not set(at.topics) & set(admin.list_topics(timeout=20).topics),
        )
        self._gone = (self._gone or frozenset()) | gone

    def _reconcile(self, at: World, policy: tuple[str, ...]) -> None:
        """Decide about unreplicated records before the failback; its faults may come then."""
        if self._course.back is not Back.RECONCILE:
            return
        for _ in range(_GAPS):
            code, _ = self._engineer.type("gap", "--scope", "full", "--link", at.name)
            if code != ExitCode.UNKNOWN:  # an application was in a transaction
                break
            _, output = self._engineer.type("doctor", "--link", at.name)
            abort_suggested(output, at.lab, self._engineer.folder)
        if code == ExitCode.FOUND:
            words = ("reconcile", "--link", at.name, *policy)
            self._lead(at, words, self._course.on_failback, SECONDARY)
        elif code != ExitCode.DONE:
            raise Stopped(f"drctl gap ended with exit code {code}")

    def _resume(self, at: World) -> None:
        """Let applications write again once records are reconciled."""
        if all(each.resting for each in at.all_writers) and self._has_done("reconcile"):
            for each in at.all_writers:
                each.resume()

    def _has_done(self, step: str) -> bool:
        runs = self._engineer.runs
        newest = next(reversed(runs.names()), None)
        entries = runs.entries(newest) if newest else []
        return any(each["entry"] == "done" and each["step"] == step for each in entries)

    def _lead(
        self,
        at: World,
        words: tuple[str, ...],
        injections: tuple[Injection, ...],
        wanted: str,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        runs = self._engineer.runs
        injector = Injector(at.lab, runs, frozenset(runs.names()), self._sandbox)
        injector.second = lambda: self._engineer.interfere(words, injector)
        try:
            with injector.waiting_for(injections):
                self._engineer.lead(words, injector, meanwhile)
        finally:
            self._struck += injector.injected
        if injector.failures:
            raise Stopped(f"the lab was not repaired: {'; '.join(injector.failures)}")
        if at.endpoint.cluster().name != wanted:
            raise Stopped(f"drctl {words[0]} did not switch the endpoint to the {wanted}")

    def _quiesce(self, at: World, serving: str) -> None:
        """Stop writing, and wait until everything is read and replicated."""
        for writer in at.all_writers:
            if not writer.stop():
                raise Stopped(f"{writer.name} does not stop")
        here = at.cluster(serving)
        admin = here.admin()
        # The end of a partition may be after the end of a transaction, which nobody reads.
        ends: dict[int, int] = {}
        for record in held(here, at.topic):
            ends[record.partition] = max(record.offset + 1, ends.get(record.partition, 0))
        backlog = {each.group: sum(ends.values()) for each in at.members}

        def read() -> bool:
            backlog.update({group: missing(admin, group, at.topic, ends) for group in backlog})
            return not any(backlog.values())

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
        """Wait until everything on the primary is on the secondary, except what was kept away."""
        runs, away = self._engineer.runs, at.cluster(SECONDARY)
        kept_away = exported(runs)
        waiting = {topic: self._lasting(at, topic) - kept_away for topic in at.topics}
        for topic in at.topics:
            waiting[topic] -= {each.value for each in held(away, QUARANTINE + topic)}
        discarded = reconciled(runs).get("discard", 0)

        def copied() -> bool:
            left = (
                len(values - {each.value for each in held(away, topic)})
                for topic, values in waiting.items()
            )
            return sum(left) <= discarded

        at.wait("MirrorMaker 2 copies to the secondary again", copied)

    def _lasting(self, at: World, topic: str) -> set[str]:
        """Return the values on the primary that compaction will not remove."""
        records = sorted(held(at.cluster(PRIMARY), topic), key=lambda r: (r.partition, r.offset))
        if topic == at.topic:
            return {each.value for each in records}
        return set({each.key: each.value for each in records}.values())
