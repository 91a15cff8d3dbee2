"""`python -m tests.soak`: rounds on one lab until the time is up; exit code 1 if one was bad."""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from drctl.lab.lab import Lab
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base
from drctl.model.errors import DrctlError
from tests.soak.report import reported, table
from tests.soak.round import Result, Round
from tests.soak.round_plan import SANDBOXED, Fault, draw
from tests.soak.sandbox import Sandbox, enter
from tests.soak.world import replicate_committed_records

HEAP_MB = {1: 384, 3: 320}
"""Heap by number of brokers per cluster."""


def main(arguments: list[str]) -> int:
    """Run rounds, and report each."""
    given = _parsed(arguments)
    obstacle = enter()
    folder = Path(given.dir or tempfile.mkdtemp(prefix="drctl-soak-")).absolute()
    stopping = threading.Event()
    _stop_gently(stopping)
    lab = Lab(folder / "lab")
    results: list[Result] = []
    shape = settings(given.brokers)
    try:
        with ExitStack() as opened:
            sandbox = None
            if obstacle:
                print(f"Without faults of networks, disks and clocks: {obstacle}", flush=True)
            else:
                sandbox = opened.enter_context(Sandbox(folder / "hosts", lab.root, shape).opened())
            print(f"Starting a lab (two clusters and Connect) in {lab.root}", flush=True)
            lab.up(shape)
            replicate_committed_records(lab)
            _play(given, lab, folder, stopping, results, sandbox)
    except KeyboardInterrupt:
        print("Interrupted; the current round does not count", flush=True)
    except DrctlError as error:
        print(f"the lab failed: {error.message}", file=sys.stderr)
        return 1
    finally:
        lab.down()
        _tidy(folder, keep=given.keep or any(not each.good for each in results))
    print("", *table(results), sep="\n", flush=True)
    return 0 if results and all(each.good for each in results) else 1


def settings(brokers: int) -> LabSettings:
    """Return the settings of a lab on unused ports."""
    base = free_port_base(random.Random())
    return LabSettings(port_base=base, brokers=brokers, heap_mb=HEAP_MB[brokers], racks=brokers > 1)


def _play(
    given: argparse.Namespace,
    lab: Lab,
    folder: Path,
    stopping: threading.Event,
    results: list[Result],
    sandbox: Sandbox | None,
) -> None:
    impossible = frozenset[Fault]() if sandbox else SANDBOXED
    until = time.monotonic() + given.minutes * 60
    seed = given.seed
    while not stopping.is_set():
        plan = draw(seed, given.brokers).without(impossible)
        folder_of_round = folder / f"round-{seed}"
        result = Round(plan, folder_of_round, stopping, sandbox=sandbox).play(lab)
        results.append(result)
        print(*reported(result), sep="\n", flush=True)
        if result.good and not given.keep:
            shutil.rmtree(result.folder)
        seed += 1
        over = time.monotonic() > until if given.rounds is None else len(results) >= given.rounds
        if over:
            return


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="start no new round after this")
    parser.add_argument("--rounds", type=int, help="number of rounds, however long they take")
    parser.add_argument(
        "--seed",
        type=int,
        default=int(time.time()) % 1_000_000,
        help="seed of the first round; incremented for each round",
    )
    parser.add_argument(
        "--brokers",
        type=int,
        choices=(1, 3),
        default=1,
        help="brokers per cluster; with three, one is killed or all are restarted in turn",
    )
    parser.add_argument("--dir", help="output folder; by default a new one")
    parser.add_argument("--keep", action="store_true", help="also keep the output of good rounds")
    return parser.parse_args(arguments)


def _stop_gently(stopping: threading.Event) -> None:
    """Let Ctrl-C end after the current round; a second one interrupts it."""

    def asked(number: int, _frame: object) -> None:
        stopping.set()
        signal.signal(number, signal.default_int_handler)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, asked)


def _tidy(folder: Path, *, keep: bool) -> None:
    """Remove the folder if it has nothing to investigate."""
    if keep or any(folder.glob("round-*")):
        print(f"kept: {folder}", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
