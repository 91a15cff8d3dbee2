"""`python -m tests.simulation`: plays seeds; exit code 1 if an invariant does not hold in one."""

import argparse
import gc
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.simulation.planted import PLANTED, RARE, planted
from tests.simulation.schedule import Simulation, simulated

SHOWN = 3
CHUNK = 250
COLLECTED_EVERY = 50


class Played(NamedTuple):
    """The result of one seed.

    Attributes:
        runs: how its runs ended, as text.
        error: the broken invariant, empty if all hold.
        trace: what happened; only if an invariant is broken.
    """

    seed: int
    runs: str
    error: str = ""
    trace: tuple[str, ...] = ()


def played(seed: int) -> Played:
    """Play one seed in this process."""
    simulation = Simulation(seed)
    try:
        simulation.play()
    except Exception as broken:  # noqa: BLE001
        text = "" if isinstance(broken, AssertionError) else traceback.format_exc()
        error = f"{type(broken).__name__}: {broken}"
        return Played(seed, "", error, (*simulation.faults.lines, *text.splitlines()))
    ends = (f"{run.plan.name} {outcome.status}" for run, outcome in simulation.results)
    return Played(seed, ", ".join(ends))


def all_of(seeds: range) -> Iterator[Played]:
    """Play seeds in this process."""
    with simulated():
        for number, seed in enumerate(seeds, 1):
            yield played(seed)
            if number % COLLECTED_EVERY == 0:
                gc.collect()


def main(arguments: list[str]) -> int:
    """Play the seeds; report how runs ended, and the first broken seeds with their traces."""
    given = _parsed(arguments)
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets decides the order of requests: it must be the same in a replay.
        command = [sys.executable, "-m", "tests.simulation", *arguments]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": "0"})
    if given.seed is not None:
        with simulated():
            for seed in given.seed:
                _replay(seed)
        return 0
    if given.planted:
        seeds = range(given.start, given.start + given.seeds)
        return _find_planted(given.planted, seeds, given.jobs)
    began, ends, broken = time.monotonic(), Counter[str](), list[Played]()
    for found in _in_parallel(range(given.start, given.start + given.seeds), given.jobs):
        ends[found.runs] += not found.error
        if found.error:
            broken.append(found)
            print(f"{found.seed}: {found.error[:200]}", file=sys.stderr, flush=True)
    for runs, number in sorted(ends.items()):
        if number:
            print(f"{number:>8,}  {runs}")
    seconds = time.monotonic() - began
    print(f"{given.seeds:,} seeds in {seconds:.0f} s ({given.seeds / seconds:.0f} per second)")
    for found in broken[:SHOWN]:
        _show(found)
    print(f"{len(broken):,} seeds broken")
    return 1 if broken else 0


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="number of seeds [default: 1000]")
    parser.add_argument("--start", type=int, default=0, help="first seed [default: 0]")
    parser.add_argument("--jobs", type=int, default=1, help="processes [default: 1]")
    parser.add_argument(
        "--seed", type=int, nargs="+", help="replay these seeds, and show their traces"
    )
    parser.add_argument(
        "--planted", choices=("often", "rare"), help="find the faults planted by hand"
    )
    return parser.parse_args(arguments)


def _in_parallel(seeds: range, jobs: int) -> Iterator[Played]:
    if jobs == 1:
        yield from all_of(seeds)
        return
    chunks = [seeds[at : at + CHUNK] for at in range(0, len(seeds), CHUNK)]
    with ProcessPoolExecutor(jobs) as pool:
        for found in pool.map(partial(_chunk), chunks):
            yield from found


def _chunk(seeds: range) -> list[Played]:
    return list(all_of(seeds))


def _replay(seed: int) -> None:
    simulation = Simulation(seed)
    try:
        simulation.play()
    finally:
        print("\n".join(simulation.faults.lines))


def _find_planted(which: str, seeds: range, jobs: int) -> int:
    """Play seeds with each planted fault until one is broken; report faults that none finds."""
    hidden = 0
    names = [name for name in PLANTED if (name in RARE) is (which == "rare")]
    with ProcessPoolExecutor(jobs) as pool:
        for name, last in zip(names, pool.map(partial(_with_planted, seeds), names), strict=True):
            hidden += not last.error
            found = f"seed {last.seed}: {last.error[:120]}" if last.error else "NOT FOUND"
            print(f"{name}: {found}", flush=True)
    return 1 if hidden else 0


def _with_planted(seeds: range, name: str) -> Played:
    """Play seeds with a fault until one is broken; return the last one played."""
    with planted(name):
        for each in all_of(seeds):
            if each.error:
                break
    return each


def _show(found: Played) -> None:
    print(f"\nSeed {found.seed}: {found.error}\nReplay: {command(found.seed)}")
    print("\n".join(found.trace))


def command(seed: int) -> str:
    """The command that replays a seed."""
    return f"python -m tests.simulation --seed {seed}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
