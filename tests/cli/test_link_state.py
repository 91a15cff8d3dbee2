"""Where clients are and which runs are unfinished, from a journal."""

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from drctl.app import prechecks
from drctl.config.link import Link
from drctl.kafka.journal_reader import JournalTopicReader
from drctl.model.errors import DamagedJournal
from drctl.model.journal import Entry, Holder
from tests.checks.observing import observed
from tests.report import runs

NOW = datetime(2026, 3, 5, tzinfo=UTC)
ELSEWHERE = Holder("R2", "ada", "laptop-7", 41, NOW)
HERE = replace(ELSEWHERE, host=socket.gethostname(), pid=os.getpid())


class Journal:
    """Implements the used part of `JournalTopicReader`."""

    def __init__(
        self, *newest_first: runs.Run, held: Holder | None = ELSEWHERE, alive: bool = False
    ) -> None:
        self._runs = {run.notes.run: run for run in newest_first}
        self._held, self._alive = held, alive

    def runs(self) -> Sequence[str]:
        return tuple(self._runs)

    def entries(self, run: str) -> Sequence[Entry]:
        return self._runs[run].entries

    def is_abandoned(self, run: str) -> bool:
        return False

    def holder_of(self, run: str) -> Holder | None:
        return self._held

    def alive(self) -> Holder | None:
        return self._held if self._alive else None


def read(journal: Any) -> Any:
    link: Link = replace(observed({"link": {}}).link, source="primary", target="secondary")
    return prechecks.active_cluster(link, cast(JournalTopicReader, journal))


def away() -> runs.Run:
    return runs.Run(runs.unplanned(), "R1").play(runs.LOST)


def dies() -> runs.Run:
    script = {**runs.GOOD, "drain": replace(runs.GOOD["drain"], dies=True)}
    return runs.Run(runs.planned(), "R2").play(script)


def test_a_failover_and_a_later_run_that_died() -> None:
    seen = read(Journal(dies(), away()))
    assert seen.moved.run == "R1"
    assert (seen.unfinished.run, seen.unfinished.alive) == ("R2", False)
    assert read(Journal(away())).unfinished is None


def test_another_active_run_is_distinguished_from_this_process() -> None:
    assert read(Journal(dies(), alive=True)).unfinished.alive
    assert read(Journal(dies(), held=HERE, alive=True)).unfinished is None


def test_an_unreadable_journal_gives_no_answer() -> None:
    class Damaged(Journal):
        def entries(self, run: str) -> Sequence[Entry]:
            raise DamagedJournal(f"the journal of run {run} is damaged")

    with pytest.raises(DamagedJournal):
        read(Damaged(away()))


def test_every_plan_mentions_the_unfinished_run(monkeypatch: pytest.MonkeyPatch) -> None:
    link = observed({"link": {}}).link
    monkeypatch.setattr(prechecks.run_adapters, "journal_reader", lambda *_: Journal(dies()))
    (finding,) = prechecks.unfinished_run(link)
    assert finding.check == "runs-unfinished"
    assert "`drctl resume R2 --execute` resumes it" in finding.remedy
    monkeypatch.setattr(prechecks.run_adapters, "journal_reader", lambda *_: Journal(away()))
    assert list(prechecks.unfinished_run(link)) == []
