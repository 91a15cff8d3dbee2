"""What all checks together say of a link: whether it is ready, and what blocks a failover."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from drctl.checks.causes import causes_first
from drctl.checks.check import Family
from drctl.checks.clients import CLIENT_CHECKS
from drctl.checks.observed import Observed
from drctl.checks.registry import CHECKS, PRECHECKS, findings
from drctl.model.errors import ExitCode
from drctl.model.finding import Finding, Status
from drctl.model.loss import Mode
from drctl.model.plan import parse_overrides
from drctl.model.topology import Unavailable

_ADVICE = frozenset(check.name for check in CHECKS) - PRECHECKS.keys()
"""Checks that `doctor` asks and no failover is refused for."""


def standing_against(
    findings: Iterable[Finding], overrides: Collection[str], mode: Mode
) -> tuple[Finding, ...]:
    """Blockers: the findings for which a failover is refused.

    A precheck that fails blocks it; so does one that was not checked, where the failover rests on
    its answer. What nobody may override blocks it whatever was overridden.
    """
    return tuple(
        finding
        for finding in findings
        if _blocks(finding, mode) and not _overridden(finding.check, overrides)
    )


def checked_overrides(given: Iterable[str], others: Collection[str] = ()) -> Mapping[str, str]:
    """`PRECHECK=REASON` as typed: the reason of each override, by check.

    Args:
        others: names of prechecks of other packages that may be overridden, too.

    Raises:
        UsageError: there is no such precheck, it cannot be overridden, or no reason is given.
    """
    known = overridable(others)
    final = {name: check.about for name, check in PRECHECKS.items() if name not in known}
    return parse_overrides(given, known, final)


def overridable(others: Collection[str] = ()) -> Sequence[str]:
    """Names of all prechecks that may be overridden, sorted."""
    own = (
        name for name, check in PRECHECKS.items() if check.prechecks and check.prechecks.overridable
    )
    return sorted({*own, *others})


def _blocks(finding: Finding, mode: Mode) -> bool:
    if finding.check in _ADVICE:
        return False
    if finding.status is not Status.NOT_CHECKED:
        return finding.status is Status.FAIL
    check = PRECHECKS.get(finding.check)
    return check is not None and check.prechecks is not None and mode in check.prechecks.needed


def _overridden(name: str, overrides: Collection[str]) -> bool:
    check = PRECHECKS.get(name)
    final = check is not None and check.prechecks is not None and not check.prechecks.overridable
    return name in overrides and not final


_FAMILIES: Mapping[str, Family] = {
    **{check.name: check.family for check in CHECKS},
    **{check.name: Family.CLIENTS for check in CLIENT_CHECKS},
}


class Row(NamedTuple):
    """One finding, and where it belongs.

    Attributes:
        refuses: whether a planned failover would be refused for it.
    """

    family: Family
    finding: Finding
    refuses: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All rows.

    Attributes:
        at_ms: when it was looked at, milliseconds UTC.
        silent: clusters that did not answer.
    """

    link: str
    source: str
    target: str
    at_ms: int
    rows: tuple[Row, ...]
    silent: tuple[str, ...] = ()

    @property
    def counts(self) -> Mapping[Status, int]:
        """Rows by status; all of them are there."""
        found = Counter(row.finding.status for row in self.rows)
        return {status: found[status] for status in Status}

    @property
    def ready(self) -> bool:
        """Nothing fails, and a planned failover would not be refused."""
        return not any(row.refuses or row.finding.status is Status.FAIL for row in self.rows)

    @property
    def exit_code(self) -> ExitCode:
        """5 where evidence is missing, for a cluster did not answer; 1 where it is not ready."""
        if self.silent:
            return ExitCode.UNKNOWN
        return ExitCode.DONE if self.ready else ExitCode.FOUND


def diagnosed(observed: Observed, of_clients: tuple[Finding, ...] = ()) -> Diagnosis:
    """Ask every check.

    Args:
        of_clients: what was found in the settings of applications.
    """
    found = causes_first((*findings(observed), *of_clients))
    refusing = set(standing_against(found, (), observed.mode))
    link = observed.link
    ends = ((link.source, observed.source), (link.target, observed.target))
    return Diagnosis(
        link.name,
        link.source,
        link.target,
        observed.now_ms,
        tuple(Row(_FAMILIES[each.check], each, each in refusing) for each in found),
        tuple(name for name, answer in ends if isinstance(answer, Unavailable)),
    )
