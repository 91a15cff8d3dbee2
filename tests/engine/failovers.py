"""Failovers of a link in memory, with and without faults; people do what they are asked to."""

import time
from collections.abc import Callable
from dataclasses import replace

from drctl.engine.kind import Status
from drctl.model.fencing import Denied, Topics, denials, sign
from drctl.model.health import OpenTransaction
from drctl.model.loss import Mode
from drctl.model.plan import Plan
from drctl.model.repairs import Acl
from drctl.plans.failover import failover
from drctl.plans.inputs import FenceMethod, PlanInputs
from tests.engine.connect_workers import CONNECT
from tests.engine.crashing import Case, Change
from tests.engine.pair import (
    APP,
    AUDIT,
    BACK,
    BATCH,
    OF_A_PERSON,
    ORDERS,
    PRIMARY,
    SECONDARY,
    Pair,
    PersonAction,
    linked,
)
from tests.engine.processes import FENCE

SEEN = PlanInputs(
    "main",
    PRIMARY,
    SECONDARY,
    (APP, BATCH),
    ("mm2",),
    ("file", "dns"),
    probed_endpoints=(0,),
    stabilize_s=1,
    drain_window_s=1,
    timeout_s=2,
    fence_command=(FENCE, "on"),
    fence_undo=(FENCE, "off"),
    fence_verify=(FENCE, "look"),
)
REVERSED = replace(SEEN, reverse=(BACK,))
"""The same, with replication to the old primary afterwards."""

WITH_SOURCES = replace(SEEN, source_connectors={"shop": "shop"})
"""The same, and a source connector moves with the applications."""

ABORTING = replace(SEEN, overrides={"hanging-transactions": "their producers are gone"})
"""The same, with an override that aborts hanging transactions."""

SIGNED = "User:drctl-fence-of:"
UNDONE = frozenset({"groups", "ids", "transactions"})
"""Prepared groups, skipped ids and aborted transactions are not rolled back, as the steps state."""


def plan(mode: Mode, method: FenceMethod = FenceMethod.ACL, seen: PlanInputs = SEEN) -> Plan:
    return failover(mode, replace(seen, fence_method=method))


def lost() -> Pair:
    """The source has failed; consumers that need it are restarted."""
    pair = linked()
    pair.die(PRIMARY)
    pair.restarted = True
    return pair


MAKE: dict[Mode, Callable[[], Pair]] = {Mode.PLANNED: linked, Mode.UNPLANNED: lost}


def case(
    mode: Mode,
    method: FenceMethod = FenceMethod.ACL,
    prepare: Change | None = None,
    seen: PlanInputs = SEEN,
) -> Case:
    """A failover of a link; a person performs the manual steps."""

    def prepared(pair: Pair) -> None:
        if method is FenceMethod.NONE:
            pair.manual_actions = by_hand(pair)
        if prepare:
            prepare(pair)

    def remedy(pair: Pair) -> None:
        dead = {what for what in pair.trace.silent if what.endswith(f"of {PRIMARY}")}
        pair.trace.heal()
        # A group that could not be prepared is an outstanding action: a person restarts its
        # members.
        pair.restarted = True
        if mode is Mode.UNPLANNED:
            pair.trace.silent |= dead

    return Case(plan(mode, method, seen), MAKE[mode], prepared, remedy=remedy)


def by_hand(pair: Pair) -> dict[str, PersonAction]:
    """Register what a person does for each manual step."""
    site = pair.sites[PRIMARY]

    def wall(to: bool) -> PersonAction:
        return PersonAction(
            lambda: setattr(site, "fenced_outside", to), lambda: site.fenced_outside is to
        )

    stop = PersonAction(lambda: pair.stopped.add(PRIMARY), lambda: PRIMARY in pair.stopped)
    start = PersonAction(lambda: pair.stopped.discard(PRIMARY), lambda: PRIMARY not in pair.stopped)
    fence, readers = "fence-producers", "stop-consumers"
    return {
        **{fence: wall(True), f"{fence}.undo": wall(False)},
        **{readers: stop, f"{readers}.undo": start},
    }


def hangs(pair: Pair) -> None:
    """A transaction that no coordinator knows; and one of a producer that writes."""
    logs = pair.sites[PRIMARY].logs
    logs.open_[ORDERS] = OpenTransaction(4001, 3, 2, 1000, hanging=True)
    now_ms = int(time.time() * 1000)
    logs.open_[AUDIT] = OpenTransaction(4002, 0, 0, now_ms, "young", "Ongoing", hanging=False)


def blocked() -> Pair:
    """A link whose drain such a transaction would block."""
    pair = linked()
    hangs(pair)
    return pair


def precheck_fails(pair: Pair) -> None:
    """A precheck fails from the start."""
    pair.against.add("target-unreachable")


def positions_refused(pair: Pair) -> None:
    """Offset commits are refused before writes are enabled: everything is rolled back."""
    pair.trace.declined.add(f"positions of {SECONDARY}")


def opening_refused(pair: Pair) -> None:
    """Another link's fence keeps clients from the target: everything is rolled back."""
    (rule,) = denials([APP], [Topics("orders")], [Denied.WRITE])
    pair.sites[SECONDARY].rules.rules |= {rule, sign(rule, "other")}


def endpoint_refused(pair: Pair) -> None:
    """The endpoint cannot be switched after writes are enabled."""
    pair.trace.declined.add("endpoint 2")


def connect_unanswered(pair: Pair) -> None:
    """Connect executes the first request and does not respond afterwards."""
    pair.trace.silent_after_change.add(CONNECT)


def nothing_wrong(pair: Pair) -> None:
    """No fault."""


WRONG: dict[Change, tuple[Status, Status]] = {
    nothing_wrong: (Status.DONE, Status.DONE),
    precheck_fails: (Status.REFUSED, Status.REFUSED),
    positions_refused: (Status.REFUSED, Status.REFUSED),
    opening_refused: (Status.REFUSED, Status.REFUSED),
    endpoint_refused: (Status.STOPPED, Status.DONE),
    connect_unanswered: (Status.UNKNOWN, Status.DONE),
}
"""By fault: the status after the first attempt, and the final one."""


def lift_fence(pair: Pair, name: str = PRIMARY) -> None:
    """Remove all ACLs of drctl from a cluster while no drctl process runs."""
    rules = pair.sites[name].rules
    rules.rules -= {rule for rule in rules.rules if rule.permission == "DENY"} - {OF_A_PERSON}
    rules.spread()


def denials_of(pair: Pair) -> dict[str, list[Acl]]:
    """Return the deny ACLs, without drctl's markers."""
    rules = pair.state["rules"].items()
    return {n: [r for r in found if not r.principal.startswith(SIGNED)] for n, found in rules}


def fence_of(pair: Pair) -> list[Acl]:
    """Return the ACLs that fence producers from the source."""
    return [rule for rule in denials_of(pair)[PRIMARY] if rule.operation == Denied.WRITE]


def named(value: object) -> str:
    return value.__name__ if callable(value) and not isinstance(value, type) else str(value)
