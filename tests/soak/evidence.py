"""Collects the results of a round: logs, both topics, and drctl's journal and reports."""

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from drctl.plans.failback import NAME, REBUILD_NAME
from drctl.reconcile.policy import QUARANTINE
from drctl.steps.records import COPY, Reconcile, ReconcileResult
from tests.soak.fault_injection import Runs
from tests.soak.judging import Compacted, Evidence, Group, Reported
from tests.soak.logs import Aborted, Acknowledged, Committed, Failed, Processed, read_log
from tests.soak.reading import held
from tests.soak.round_plan import PRIMARY, SECONDARY
from tests.soak.world import World

Entry = Mapping[str, Any]
BACK = NAME, REBUILD_NAME
_RECONCILING = Reconcile.name, ReconcileResult.name


def gathered(
    at: World,
    runs: Runs,
    answer: Mapping[str, Any],
    serving: str = PRIMARY,
    unbounded: Collection[str] = (),
    gone: frozenset[str] | None = None,
) -> Evidence:
    """Collect everything once no client and no replicator runs.

    Args:
        gone: values that were lost with the primary's topics; None if these were not lost.
        answer: the last result of `drctl gap`.
        serving: the cluster of the applications at the end.
        unbounded: clusters on which groups may read any number of records again.
    """
    written = [line for each in at.writers for line in read_log(each.log.path)]
    away = at.cluster(SECONDARY)
    (compared,) = (each for each in answer["topics"] if each["topic"] == at.topic)
    totals = Counter[str]()
    for partition in compared["partitions"]:
        totals.update({name: partition[name] for name in ("unreplicated", "duplicated_on_target")})
    return Evidence(
        tuple(line for line in written if isinstance(line, Acknowledged)),
        tuple(line for line in written if isinstance(line, Failed)),
        {name: held(at.cluster(name), at.topic) for name in (PRIMARY, SECONDARY)},
        tuple(each.value for each in held(away, QUARANTINE + at.topic)),
        tuple(_group(each.group, each.log.path) for each in at.members),
        reported(runs, totals, unbounded),
        serving,
        exported(runs),
        frozenset(line.value for line in written if isinstance(line, Aborted)),
        gone or frozenset(),
        gone is not None,
        _compacted(at),
    )


def _compacted(at: World) -> Compacted | None:
    if not at.updaters:
        return None
    written = [line for each in at.updaters for line in read_log(each.log.path)]
    (topic,) = {each.topic for each in at.updaters}
    return Compacted(
        tuple(line for line in written if isinstance(line, Acknowledged)),
        tuple(line for line in written if isinstance(line, Failed)),
        {name: held(at.cluster(name), topic) for name in (PRIMARY, SECONDARY)},
        tuple(each.value for each in held(at.cluster(SECONDARY), QUARANTINE + topic)),
    )


def exported(runs: Runs) -> frozenset[str]:
    """Return the values in all complete exports of these runs."""
    homes = [each.parent for each in runs.folders]
    manifests = (m for home in homes for m in home.glob("reconcile/exports/*/manifest.json"))
    files = (file for each in manifests for file in each.parent.glob("*.jsonl"))
    lines = (json.loads(line) for file in files for line in file.read_bytes().splitlines())
    return frozenset(b64decode(line["value"]).decode() for line in lines)


def reconciled(runs: Runs) -> Mapping[str, int]:
    """Return records by action: copies of all runs, all other actions of the last failback.

    Runs that use the same result of `drctl gap` report the same copies. A later result no longer
    lists records that were copied, but lists again those that were left missing on purpose.
    """
    copied: dict[str, int] = {}
    for run in runs.names():
        result = ""
        for entry in runs.entries(run):
            if entry.get("step") not in _RECONCILING:
                continue
            if entry["entry"] == "intend":
                result = entry["intent"].get("result", "")
            elif entry["entry"] == "done":
                copies = entry["facts"].get("done", {}).get(COPY, 0)
                copied[result] = max(copied.get(result, 0), copies)
    found = dict(_facts(_last_of(runs, BACK), Reconcile.name).get("done", {}))
    return {**found, COPY: sum(copied.values())}


def _group(name: str, log: Path) -> Group:
    lines = tuple(read_log(log))
    return Group(
        name,
        tuple(line for line in lines if isinstance(line, Processed)),
        tuple(line for line in lines if isinstance(line, Committed)),
    )


def reported(runs: Runs, totals: Mapping[str, Any], unbounded: Collection[str] = ()) -> Reported:
    """Return drctl's statements in the journals of the last failover and failback."""
    out, back = _last_of(runs, ("failover",)), _last_of(runs, BACK)
    return Reported(
        totals["unreplicated"],
        totals["duplicated_on_target"],
        _facts(back, "verify-primary").get("duplicated", 0),
        reconciled(runs),
        {**dict(_again(out, SECONDARY)), **dict(_again(back, PRIMARY))},
        frozenset(unbounded),
    )


def _last_of(runs: Runs, plans: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the journal of the last run of one of these plans, by the beginning of its name."""
    for run in reversed(runs.names()):
        entries = runs.entries(run)
        if entries and entries[0]["plan"]["name"].startswith(plans):
            return entries
    return []


def _facts(entries: list[dict[str, Any]], step: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in entries:
        if entry["entry"] == "done" and entry["step"] == step:
            found = entry["facts"]
    return found


def _again(
    entries: list[dict[str, Any]], cluster: str
) -> Iterator[tuple[tuple[str, str], int | None]]:
    """Return each group's highest bound of any translation of the run; None if unknown."""
    most: dict[str, int] = {}
    left_out: set[str] = set()
    for entry in entries:
        if entry["entry"] == "intend" and entry["step"] == "commit-offsets":
            intent = entry["intent"]
            # A journal omits fields of an intent that have their default: here, no group.
            for group, records in intent.get("rereads", {}).items():
                if records is None:
                    left_out.add(group)
                most[group] = max(most.get(group, 0), records or 0)
            # "GROUP TOPIC-PARTITION: REASON" or "GROUP: REASON": its start offset is not bounded.
            left_out |= {row.partition(" ")[0].rstrip(":") for row in intent["left_out"]}
    for group in most.keys() | left_out:
        yield (cluster, group), None if group in left_out else most[group]
