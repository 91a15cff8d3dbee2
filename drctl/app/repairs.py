"""Repairs differences between a link's clusters; changes only the target."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drctl.app.link_reader import ClusterLinkReader
from drctl.app.link_writer import ClusterLinkWriter
from drctl.app.operation import Operation, Prepared
from drctl.app.plan_inputs import connector_names
from drctl.model.errors import ExitCode, Unreachable, UsageError
from drctl.model.finding import Finding, Status
from drctl.model.plan import Plan
from drctl.model.topology import Unavailable
from drctl.plans.repair import PRECHECKS, Repair, repair
from drctl.steps.repairs import AGAIN

if TYPE_CHECKING:
    from drctl.app.notices import Prompts
    from drctl.checks.observed import Observed
    from drctl.checks.repairs import Fix, Fixes, Left
    from drctl.config.configuration import Config
    from drctl.config.link import Link

_PLAN = "plan"
"""Findings shown with a plan: prechecks and what remains."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The observed differences and their fixes."""

    observed: "Observed"
    fixes: "Fixes"


@dataclass(slots=True)
class RepairReader(ClusterLinkReader):
    """Keeps the differences of the plan; prechecks and the final precheck read them again."""

    last: Differences | None = None


def make_plan(reader: ClusterLinkReader, overrides: Mapping[str, str]) -> Plan:
    """Plan the repair of the current differences.

    Raises:
        Unreachable: a cluster did not answer.
    """
    assert isinstance(reader, RepairReader)
    looked = reader.last = look_at(reader)
    link = reader.link
    given = Repair(
        link.name,
        link.source,
        link.target,
        looked.fixes,
        connector_names(link) if link.settings.replicator.connect else (),
        _basis(looked),
        overrides,
    )
    return repair(given)


def look_at(reader: ClusterLinkReader) -> Differences:
    """Read the current differences.

    Raises:
        Unreachable: a cluster did not answer.
    """
    from drctl.app.doctor import observe
    from drctl.checks.repair_plan import all_fixes, differing_topics
    from drctl.checks.repairs import ObservedTopics, validated

    link = reader.link
    observed = observe(reader.config, link)
    for answer in (observed.source, observed.target):
        if isinstance(answer, Unavailable):
            raise Unreachable(answer.reason, "check its brokers: drctl doctor")
    names = differing_topics(observed)
    copies = tuple(map(link.target_topic, names))
    target = reader.shapes(link.target)
    there = reader.cluster_reader(link.target).topic_names()
    seen = ObservedTopics(reader.shapes(link.source).shapes(names), target.shapes(copies), there)
    fixes = validated(all_fixes(observed, seen), target, reader.quotas(link.target))
    return Differences(observed, fixes)


def _basis(looked: Differences) -> Mapping[str, str]:
    observed, fixes = looked.observed, looked.fixes
    link = observed.link
    parts = [(fix.what, fix.before, fix.after) for fix in fixes.changes]
    digest = hashlib.sha256(repr(sorted(parts)).encode()).hexdigest()[:12]
    return {
        f"cluster {link.source}": str(observed.source),
        f"cluster {link.target}": str(observed.target),
        "differences": f"{len(parts)} to change, {len(fixes.left)} left, {digest}",
    }


def _judged(reader: ClusterLinkReader, asked: str) -> Sequence[Finding]:
    assert isinstance(reader, RepairReader)
    if asked == _PLAN and reader.last is not None:
        return (*_prechecks(reader.last), *_left(reader.last), *_beyond(reader.last))
    looked = look_at(reader)
    if asked == AGAIN:
        return (*_open(looked.fixes.changes), *_left(looked))
    return tuple(_prechecks(looked))


def _prechecks(looked: Differences) -> Iterator[Finding]:
    from drctl.checks.registry import precheck_findings
    from drctl.checks.repairs import clients_left_source

    yield from (each for each in precheck_findings(looked.observed) if each.check in PRECHECKS)
    yield clients_left_source(looked.observed)


def _open(fixes: "Iterable[Fix[object]]") -> Iterator[Finding]:
    for fix in fixes:
        yield Finding("doctor-fix", Status.FAIL, fix.what, f"{fix.before}, not {fix.after}")


def _left(looked: Differences) -> Iterator[Finding]:
    return map(_finding, looked.fixes.left)


def _beyond(looked: Differences) -> Iterator[Finding]:
    return (_finding(each, Status.NOT_CHECKED) for each in looked.fixes.beyond)


def _finding(left: "Left", status: Status = Status.WARN) -> Finding:
    return Finding(left.check, status, left.what, left.why, "", left.impact, left.remedy)


def _overrides(given: Sequence[str]) -> Mapping[str, str]:
    from drctl.checks.diagnosis import checked_overrides
    from drctl.checks.repairs import PRECHECK

    found = checked_overrides(given, [PRECHECK])
    others = sorted(found.keys() - {PRECHECK})
    if others:
        raise UsageError(
            f"--override {others[0]}: `drctl doctor --fix` has no such precheck",
            f"it has one that can be overridden: {PRECHECK}",
        )
    return found


def _reader(config: "Config", link: "Link", prompts: "Prompts", _lost: bool) -> RepairReader:
    return RepairReader(config, link, _judged, prompts)


def _code(prepared: Prepared) -> ExitCode:
    if prepared.blockers:
        return ExitCode.REFUSED
    left = any(each.status is Status.WARN for each in prepared.findings)
    return ExitCode.FOUND if prepared.plan.steps or left else ExitCode.DONE


FIX = Operation(
    _reader,
    lambda config, reader, folder: ClusterLinkWriter(config, reader.link, folder, reader.commands),
    _overrides,
    lambda _plan: _PLAN,
    _code,
)
"""Repairs of a link's target."""
