"""Digests both clusters in several processes, each with one consumer of each cluster.

A worker gets everything, also passwords, through its standard input, so that none of it is on a
command line or in the environment. It ends when that pipe is closed, also if drctl was killed.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from threading import Thread
from types import TracebackType
from typing import Self

from drctl.gap.comparison import (
    BucketDigest,
    ComparePlan,
    Progress,
    Reads,
    ScanFailed,
    Side,
    span_of,
)
from drctl.gap.pairing import READING, InThisProcess, digest_both, shares
from drctl.host.processes import reduced_gc
from drctl.kafka.log_reader import KafkaLogReader, LogSource
from drctl.model.errors import ConfigError, DrctlError

FEW_OFFSETS = 200_000
"""With fewer offsets of both clusters, starting processes takes longer than it saves."""

MOST_WORKERS = 8

_REPORT_S = 0.1
_PROGRAM = (*(sys.executable, "-P", "-c"), "from drctl.kafka.digest_workers import main; main()")


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker reads.

    Attributes:
        sources: with passwords in clear text.
    """

    sources: Mapping[Side, LogSource]
    plan: ComparePlan
    reads: Reads


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of a worker, as the arguments of its class."""

    kind: type[DrctlError]
    words: tuple[str, ...]


class DigestWorkers:
    """Implements `drctl.gap.pairing.BothDigester` with a process for each core.

    Args:
        workers: maximum number of processes.
        program: the command line of a worker.
    """

    def __init__(
        self, sources: Mapping[Side, LogSource], workers: int, program: Sequence[str] = _PROGRAM
    ) -> None:
        self._sources = sources
        self._workers = min(workers, MOST_WORKERS)
        self._program = program

    def digest(self, plan: ComparePlan, reads: Reads, progress: Progress) -> list[BucketDigest]:
        """Digest what differs in these ranges; equal records are only counted.

        Raises:
            ScanFailed: the records could not be read completely, or a worker was killed.
            ConfigError: librdkafka rejects the properties.
        """
        total = span_of(reads)
        parts = shares(reads, self._workers if total >= FEW_OFFSETS else 1)
        if len(parts) < 2:
            return InThisProcess(KafkaLogReader(self._sources)).digest(plan, reads, progress)
        progress(READING, 0, total)
        with ExitStack() as stack:
            workers = [stack.enter_context(_Worker(self._program)) for _ in parts]
            for worker, part in zip(workers, parts, strict=True):
                worker.send(Job(self._sources, plan, part))
            digests = _collected(workers, lambda done: progress(READING, done, total))
        progress(READING, total, total)
        return digests


class _Worker:
    """The process of a worker; killed at the end."""

    def __init__(self, program: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # Ctrl-C reaches only drctl, which then ends its workers
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._jobs = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self.answers = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._jobs.close()
        self.answers.close()

    def send(self, job: Job) -> None:
        """Start the job.

        Raises:
            ScanFailed: the process has ended.
        """
        try:
            self._jobs.send(job)
        except OSError as error:
            raise self._ended() from error

    def answer(self) -> "int | list[BucketDigest]":
        """The next answer: how many more records were read, or the result.

        Raises:
            ScanFailed: the records could not be read completely, or the process has ended.
            ConfigError: librdkafka rejects the properties.
        """
        try:
            found: int | list[BucketDigest] | Failure = self.answers.recv()
        except (EOFError, OSError) as error:
            raise self._ended() from error
        if isinstance(found, Failure):
            raise found.kind(*found.words)
        return found

    def _ended(self) -> ScanFailed:
        code = self._process.wait()
        why = f"ended with exit code {code}"
        if code < 0:
            why = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        return ScanFailed(f"a process that read records {why}")


def _collected(workers: Sequence[_Worker], done: Callable[[int], None]) -> list[BucketDigest]:
    digests: list[BucketDigest] = []
    records = 0
    running = {worker.answers: worker for worker in workers}
    while running:
        for connection in wait(list(running)):
            assert isinstance(connection, Connection)
            answer = running[connection].answer()
            if isinstance(answer, int):
                records += answer
                done(records)
            else:
                digests += answer
                del running[connection]
    return digests


def main() -> None:
    """Run as a worker: one job from standard input, answers to standard output."""
    jobs, answers = Connection(os.dup(0), writable=False), Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what a library prints must not be among the answers
    job: Job = jobs.recv()
    Thread(target=_end_with_parent, args=(jobs,), daemon=True).start()
    answers.send(_answer(job, answers.send))


def _answer(job: Job, report: Callable[[int], None]) -> list[BucketDigest] | Failure:
    waiting, reported = 0, time.monotonic()

    def done(records: int) -> None:
        nonlocal waiting, reported
        waiting += records
        now = time.monotonic()
        if now - reported >= _REPORT_S:
            report(waiting)
            waiting, reported = 0, now

    try:
        with reduced_gc():
            return digest_both(KafkaLogReader(job.sources), job.plan, job.reads, done)
    except ScanFailed as failed:
        return Failure(ScanFailed, (failed.cause,))
    except ConfigError as wrong:
        return Failure(ConfigError, (wrong.message, wrong.hint))


def _end_with_parent(jobs: Connection) -> None:
    try:
        jobs.recv()
    except (EOFError, OSError):
        os._exit(1)
