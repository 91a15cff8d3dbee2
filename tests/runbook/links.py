"""Links to build plans for, from one with all sections to one with none."""

from pathlib import Path

from drctl.model.endpoints import ClientRedirect
from drctl.plans.inputs import FenceMethod, PlanInputs
from drctl.runbook.reading import Runbook, read

FULL = PlanInputs(
    "main",
    "primary",
    "secondary",
    ("User:orders-app", "User:billing"),
    ("mm2-source", "mm2-checkpoint"),
    ("dns", "haproxy"),
    {"cluster primary": "P1", "cluster secondary": "S1"},
    {"replication-lag": "agreed"},
    redirects=(ClientRedirect.LOOKED_UP, ClientRedirect.CUT),
    replicator="mirrormaker2",
    source_connectors={"shop": "shop-dr"},
)
BARE = PlanInputs(
    "main", "primary", "secondary", fence_method=FenceMethod.NONE, source_answers=False
)
SITE = PlanInputs(
    "main",
    "primary",
    "secondary",
    (),
    ("replicator",),
    ("file",),
    redirects=(ClientRedirect.READ_AT_START,),
    fence_method=FenceMethod.COMMAND,
    fence_command=("./fence", "on"),
    fence_undo=("./fence", "off"),
    replicator="confluent-replicator",
)
LINKS = {"full": FULL, "bare": BARE, "site": SITE}


def runbook(*steps: str, parameters: str = "{}") -> Runbook:
    """Return a runbook with these steps, one per line."""
    head = f"name: x\nabout: x\nparameters: {parameters}\nsteps:\n"
    return read(head + "".join(f"  - {line}\n" for line in steps), Path("x.yaml"))
