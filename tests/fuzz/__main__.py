"""`python -m tests.fuzz`: decodes changed inputs; exit code 1 if a decoder fails."""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.fuzz.targets import SLOW, TARGETS, One

CHUNK = 1_000
MEMORY = 1 << 30


class Failure(NamedTuple):
    """An input that a decoder must refuse, but did not.

    Attributes:
        error: the exception with its trace.
    """

    target: str
    seed: int
    number: int
    error: str

    @property
    def command(self) -> str:
        """The command that decodes this input alone."""
        return f"python -m tests.fuzz --replay {self.target}:{self.seed}:{self.number}"


class TooLong(BaseException):
    """One input takes too much CPU time."""


def _stop(*_: object) -> None:
    raise TooLong("too much CPU time for one input")


def failures(target: str, one: One, seed: int, numbers: range, cpu_s: float = 5) -> list[Failure]:
    """Decode these inputs; return the first failure of each kind, by its last line."""
    found: dict[str, Failure] = {}
    before = signal.signal(signal.SIGVTALRM, _stop)
    try:
        for number in numbers:
            signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
            try:
                one(Random(f"{target} {seed} {number}"))
            except (Exception, TooLong) as error:  # noqa: BLE001
                where = traceback.extract_tb(error.__traceback__)[-1]
                kind = f"{type(error).__name__} {where.filename}:{where.lineno}"
                text = "".join(traceback.format_exception(error)[-12:])
                found.setdefault(kind, Failure(target, seed, number, text))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    return list(found.values())


_begun: dict[str, One] = {}
_folder = Path()


def _begin(folder: str) -> None:
    """Prepare a process: one input may not take more than a GiB of memory."""
    global _folder
    _folder = Path(tempfile.mkdtemp(dir=folder))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _chunk(target: str, seed: int, numbers: range) -> list[Failure]:
    if target not in _begun:
        folder = _folder / target
        folder.mkdir()
        _begun[target] = TARGETS[target](folder)
    return failures(target, _begun[target], seed, numbers)


def shares(inputs: int, targets: Sequence[str]) -> dict[str, int]:
    """Return how many inputs each target gets: slow ones a tenth of what others get."""
    weights = {target: 1 if target in SLOW else 10 for target in targets}
    return {target: inputs * each // sum(weights.values()) for target, each in weights.items()}


def main(arguments: list[str]) -> int:
    """Decode inputs of all targets in turn; report progress, and each kind of failure once."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        command = [sys.executable, "-m", "tests.fuzz", *arguments]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    given = _parsed(arguments)
    if given.replay:
        target, seed, number = given.replay.split(":")
        with tempfile.TemporaryDirectory() as folder:
            TARGETS[target](Path(folder))(Random(f"{target} {seed} {number}"))
        return 0
    targets = given.only or list(TARGETS)
    counts = shares(given.inputs, targets)
    # Targets alternate, so that a run that is stopped early has tried all of them.
    chunks = [
        (target, given.seed, range(at, min(at + CHUNK, count)))
        for at in range(0, max(counts.values()), CHUNK)
        for target, count in counts.items()
        if at < count
    ]
    done: Counter[str] = Counter()
    kinds: dict[str, Failure] = {}
    began = reported = time.monotonic()
    spread = ", ".join(f"{n} kinds x {count:,}" for count, n in Counter(counts.values()).items())
    print(f"seed {given.seed}: {spread} inputs", flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(given.jobs, initializer=_begin, initargs=(folder,)) as pool,
    ):
        for (target, _, numbers), found in zip(
            chunks, pool.map(_chunk, *zip(*chunks, strict=True)), strict=True
        ):
            done[target] += len(numbers)
            for one in found:
                kind = f"{target} {one.error.splitlines()[-1][:60]}"
                if kind not in kinds:
                    kinds[kind] = one
                    print(f"\n{one.error}\nReplay: {one.command}", flush=True)
            if time.monotonic() - reported > given.every:
                reported = time.monotonic()
                print(f"{sum(done.values()):,} inputs in {reported - began:.0f} s", flush=True)
    seconds = time.monotonic() - began
    total = sum(done.values())
    rate = total / seconds
    print(f"{total:,} inputs in {seconds:.0f} s ({rate:,.0f} per second), seed {given.seed}")
    print(f"{len(kinds)} kinds of failures")
    return 1 if kinds else 0


def _parsed(arguments: list[str]) -> Any:
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all [default: 100000]")
    parser.add_argument("--seed", type=int, default=0, help="[default: 0]")
    parser.add_argument("--jobs", type=int, default=1, help="processes [default: 1]")
    parser.add_argument("--every", type=int, default=30, help="seconds between lines of progress")
    parser.add_argument("--only", action="append", choices=list(TARGETS), help="this kind only")
    parser.add_argument("--replay", metavar="KIND:SEED:NUMBER", help="decode one input again")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
