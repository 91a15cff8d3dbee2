"""Plans for the workers of `tests.connectors.world` that contain all kinds of steps."""

from collections.abc import Iterator

from drctl.connectors.applying import Action as Writing
from drctl.connectors.applying import Line, OffsetsPlan
from drctl.connectors.recovery_plan import Action, Backoff, RecoverLine, RecoverPlan
from drctl.connectors.remedies import Remedy
from drctl.model.plan import Plan
from drctl.model.replication import Position
from drctl.plans.connectors import recover, set_positions
from tests.connectors.world import World, failed, stopped

LINK = "connect:127.0.0.1:1"
AT = Position({"server": "mg"}, {"lsn": 17})


def every(keeper: str) -> Iterator[tuple[Plan, World]]:
    """Return restarts, both remedies and positions, and the cluster that keeps their journal."""
    line = RecoverLine(failed("mg"), Action.RESTART)
    restarts = RecoverPlan("w:8083", (line,), {})
    yield (
        recover(restarts, Backoff(1, 1, 2), 1, LINK, keeper),
        World({"mg": failed("mg")}, recovers=lambda name, attempt: True),
    )
    for remedy, name in ((Remedy.RESET, "mg"), (Remedy.RECREATE, "mg-2")):
        found = RecoverPlan("w:8083", (RecoverLine(failed("mg"), Action.REMEDY),), {}, remedy, name)
        yield recover(found, Backoff(), 1, LINK, keeper), World({"mg": failed("mg")}, {"mg": [AT]})
    write = Line("mg", "mg", AT.partition, Writing.WRITE, None, AT.offset)
    moved = OffsetsPlan("w:8083", "old:8083", (write,), {})
    yield set_positions(moved, LINK, keeper), World({"mg": stopped("mg")})
