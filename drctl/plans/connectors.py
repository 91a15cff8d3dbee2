"""Plans on the connectors of one Connect cluster: restarts, remedies, source positions."""

from collections.abc import Iterator
from itertools import pairwise

from drctl.connectors.applying import OffsetsPlan
from drctl.connectors.recovery_plan import Backoff, RecoverPlan
from drctl.connectors.remedies import Remedy
from drctl.model.plan import Duty, Plan, Step
from drctl.model.replication import Connector
from drctl.steps.connectors import (
    Another,
    CreateConnector,
    DeleteSourcePositions,
    Move,
    Moves,
    One,
    RestartConnectors,
    ResumeConnector,
    SaveSettings,
    SaveSourcePositions,
    SetSourcePositions,
    StopConnector,
    VerifyConnectorsRunning,
    Watch,
)

_EACH_S = 60.0
_WRITING_S = 10.0
_LEAST_S = 1.0


def recover(
    found: RecoverPlan, backoff: Backoff, min_uptime_s: float, link: str, cluster: str
) -> Plan:
    """The plan that recovers failed connectors; without steps if nothing can be done.

    Args:
        link: the name that runs on these workers use as their link.
        cluster: the cluster that stores the journal.
    """
    steps: Iterator[Step] = iter(())
    if found.remedy is not None and found.acting:
        (line,) = found.lines
        steps = _remedy(found, found.remedy, line.connector, min_uptime_s)
    elif found.restarted:
        steps = _restarts(Watch(found.restarted, min_uptime_s), backoff)
    seen = {
        f"connector {line.connector.name}": "+".join(
            sorted({part.state for part in line.connector.parts})
        )
        for line in found.lines
    }
    basis = {"workers": found.workers, **seen}
    return Plan("connect-recover", link, cluster, cluster, tuple(steps), basis, found.overrides)


def _restarts(watch: Watch, backoff: Backoff) -> Iterator[Step]:
    """One step per attempt; each lasts until the next attempt, or until all connectors run."""
    rows = list(backoff.rows())
    run, restart = VerifyConnectorsRunning(), RestartConnectors()
    yield run.step("pause", watch, rows[0].delay_seconds, Duty.OPTIONAL)
    for row, following in pairwise(rows):
        yield restart.step(f"restart-{row.attempt}", watch, following.delay_seconds, Duty.OPTIONAL)
    # A connector that starts at the last moment still gets the time to prove that it runs.
    last_s = max(_LEAST_S, 2 * watch.min_uptime_s)
    yield restart.step(f"restart-{rows[-1].attempt}", watch, last_s, Duty.BEST_EFFORT)


def _remedy(
    found: RecoverPlan, remedy: Remedy, connector: Connector, min_uptime_s: float
) -> Iterator[Step]:
    one = One(connector.name)
    yield StopConnector().step("stop", one, _EACH_S)
    kept = SaveSettings(found.workers, {connector.name: ()})
    yield SaveSourcePositions().step("save-source-positions", kept, _WRITING_S)
    if remedy is Remedy.RESET:
        yield DeleteSourcePositions().step("delete-source-positions", one, _WRITING_S)
        yield ResumeConnector().step("resume", one, _EACH_S)
    else:
        yield CreateConnector().step("make", Another(connector.name, found.name), _EACH_S)
    watch = Watch((found.name,), min_uptime_s, from_scratch=True)
    yield VerifyConnectorsRunning().step(
        "runs", watch, _EACH_S + min_uptime_s + 5, Duty.BEST_EFFORT
    )


def set_positions(found: OffsetsPlan, link: str, cluster: str) -> Plan:
    """The plan that sets source positions; without steps if there is nothing to set."""
    rows: dict[str, list[Move]] = {}
    for line in found.writes:
        rows.setdefault(line.connector, []).append(Move(line.partition, line.before, line.to))
    moves = {name: Moves(name, tuple(each)) for name, each in rows.items()}
    steps = []
    if moves:
        there = {name: tuple(m.partition for m in each.positions) for name, each in moves.items()}
        kept = SaveSettings(found.workers, there)
        steps.append(SaveSourcePositions().step("save-source-positions", kept, _WRITING_S))
    for number, each in enumerate(moves.values(), 1):
        steps.append(SetSourcePositions().step(f"set-positions-{number}", each, _WRITING_S))
    overrides = {precheck.value: why for precheck, why in found.overrides.items()}
    refused = {
        f"refused {n}": f"{line.connector}: {line.precheck}"
        for n, line in enumerate(found.refused, 1)
    }
    basis = {"workers": found.workers, "from": found.origin, **refused}
    return Plan("connect-offsets", link, cluster, cluster, tuple(steps), basis, overrides)
