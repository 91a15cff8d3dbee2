"""The result of all checks of a link: whether it is ready, and what blocks a failover."""

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
"""Checks of `doctor` that never block a failover."""


def blockers_among(
    findings: Iterable[Finding], overrides: Collection[str], mode: Mode
) -> tuple[Finding, ...]:
    """Return the blockers: findings that block a failover.

    A failed precheck blocks; so does one that was not checked, if the mode needs its answer. Some
    prechecks cannot be overridden.
    """
    return tuple(
        finding
        for finding in findings
        if _blocks(finding, mode) and not _overridden(finding.check, overrides)
    )


def checked_overrides(given: Iterable[str], others: Collection[str] = ()) -> Mapping[str, str]:
    """Parse `PRECHECK=REASON` options; return the reason by check.

    Args:
        others: overridable prechecks of other packages.

    Raises:
        UsageError: a precheck does not exist or cannot be overridden, or a reason is missing.
    """
    known = overridable(others)
    final = {name: check.about for name, check in PRECHECKS.items() if name not in known}
    return parse_overrides(given, known, final)


def overridable(others: Collection[str] = ()) -> Sequence[str]:
    """Return the names of all overridable prechecks, sorted."""
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
    """A finding and its area.

    Attributes:
        refuses: whether it would block a planned failover.
    """

    family: Family
    finding: Finding
    refuses: bool


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of all checks.

    Attributes:
        at_ms: time of the observation, in milliseconds since 1970 UTC.
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
        """Number of rows for every status."""
        found = Counter(row.finding.status for row in self.rows)
        return {status: found[status] for status in Status}

    @property
    def ready(self) -> bool:
        """Whether nothing fails and nothing would block a planned failover."""
        return not any(row.refuses or row.finding.status is Status.FAIL for row in self.rows)

    @property
    def exit_code(self) -> ExitCode:
        """5 if a cluster did not answer, 1 if the link is not ready, else 0."""
        if self.silent:
            return ExitCode.UNKNOWN
        return ExitCode.DONE if self.ready else ExitCode.FOUND


def diagnosed(observed: Observed, of_clients: tuple[Finding, ...] = ()) -> Diagnosis:
    """Run every check.

    Args:
        of_clients: findings in the settings of applications.
    """
    found = causes_first((*findings(observed), *of_clients))
    refusing = set(blockers_among(found, (), observed.mode))
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
