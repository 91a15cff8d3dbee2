"""Who plays: an application that writes, groups that read, and where all of them look."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from drctl.lab.environment import write_environment
from drctl.lab.scenarios import way_back
from drctl.lab.scenarios.reader import Habit, Reader
from drctl.lab.scenarios.signpost import Signpost
from drctl.lab.scenarios.stage import Stage
from drctl.lab.scenarios.writer import Writer
from drctl.lab.waiting import Patience
from drctl.model.errors import Stopped

ENDPOINT = "bootstrap"
RUNBOOKS = "runbooks"
_WAIT_S = 90


@dataclass(frozen=True, slots=True)
class Script:
    """How much happens, and to whom.

    Attributes:
        before: records that are written in peace.
        rate: at which the application then goes on, in records a second.
        behind: records that are written while replication hangs.
        after: records that are written on the secondary.
        home: records that are written at home in the end.
        habits: of the groups.
    """

    topic: str = "flights"
    before: int = 30_000
    rate: int = 2_000
    behind: int = 6_000
    after: int = 3_000
    home: int = 1_500
    habits: tuple[Habit, ...] = (
        Habit("orders-app-billing"),
        Habit("orders-app-shipping", rate=1_500),
        Habit("orders-app-audit", most=12_000),
    )


@dataclass(frozen=True, slots=True)
class Company:
    """Everybody, at work on a stage."""

    stage: Stage
    script: Script
    signpost: Signpost
    writer: Writer
    readers: tuple[Reader, ...]

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        """Until it is so.

        Raises:
            Stopped: not in time, or one of the company has failed.
        """

        def so() -> bool:
            failures = (self.writer.failure, *(each.failure for each in self.readers))
            if any(failures):
                raise Stopped("; ".join(filter(None, failures)))
            return condition()

        if not Patience.of(_WAIT_S).wait_until(so):
            stand = "; ".join(each.standing() for each in self.readers)
            raise Stopped(f"{what}: not in {_WAIT_S} s; {stand}")

    def leave(self) -> None:
        """See every group left.

        Raises:
            Stopped: one does not end.
        """
        for each in self.readers:
            each.ask_to_stop()
        for each in self.readers:
            if not each.stop():
                raise Stopped(f"the member of {each.habit.group} does not end")


@contextmanager
def company(stage: Stage, script: Script) -> Iterator[Company]:
    """Everybody, and the configuration; nobody has begun yet."""
    parts = stage.lab.parts
    groups = [habit.group for habit in script.habits]
    write_environment(parts, stage.config, (script.topic,), groups, ENDPOINT, way_back.NAME)
    with stage.config.open("a", encoding="utf-8") as config:
        config.write(f"runbooks: {RUNBOOKS}\n")
    signpost = Signpost(stage.folder / ENDPOINT, parts.clusters)
    signpost.point_to("primary")
    writer = Writer(stage.lab, signpost, script.topic)
    readers = tuple(Reader(signpost, script.topic, habit) for habit in script.habits)
    try:
        yield Company(stage, script, signpost, writer, readers)
    finally:
        writer.ask_to_stop()
        for each in readers:
            each.ask_to_stop()
