"""A rehearsal beside an unfinished run: refused, unless that run changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from drctl.app.prechecks import newest_unfinished
from drctl.app.run_journal import holder, refuse_while_held
from drctl.config.link import Link
from drctl.engine.entries import What
from drctl.kafka.journal_reader import JournalTopicReader
from drctl.model.errors import Refused
from drctl.model.journal import Holder
from tests.report import runs


@dataclass(frozen=True)
class Journal:
    """The journal of one run, which a live process of another host executes."""

    run: runs.Run

    def alive(self) -> Holder:
        return replace(holder("R"), host="another")

    def holder_of(self, _run: str) -> Holder:
        return self.alive()

    def runs(self) -> Sequence[str]:
        return ["R"]

    def is_abandoned(self, _run: str) -> bool:
        return False

    def entries(self, _run: str) -> Any:
        return [each for each in self.run.entries if each["entry"] != What.ENDED]


@dataclass(frozen=True)
class Named:
    name: str = "main"


@pytest.mark.parametrize("rehearsal", [False, True])
@pytest.mark.parametrize("steps", [2, 3], ids=["changes-nothing", "fences"])
def test_beside_an_unfinished_run(steps: int, rehearsal: bool) -> None:
    planned = runs.planned()
    run = runs.Run(replace(planned, steps=planned.steps[:steps]), "R").play(runs.GOOD)
    reader, link = cast(JournalTopicReader, Journal(run)), cast(Link, Named())
    if rehearsal and steps == 2:
        refuse_while_held(link, reader, rehearsal=True)
        assert newest_unfinished(reader, rehearsal=True) is None
    else:
        with pytest.raises(Refused, match="link main is held by run R"):
            refuse_while_held(link, reader, rehearsal=rehearsal)
        found = newest_unfinished(reader, rehearsal=rehearsal)
        assert found is not None
        assert (found.run, found.alive) == ("R", True)
