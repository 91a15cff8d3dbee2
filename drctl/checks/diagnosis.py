"""What all checks together say of a link: whether it is ready, and what stands in the way."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from drctl.checks.causes import causes_first
from drctl.checks.check import Family
from drctl.checks.client_settings import CLIENT_CHECKS
from drctl.checks.observed import Observed
from drctl.checks.registry import CHECKS, findings
from drctl.checks.standing import standing_against
from drctl.model.errors import ExitCode
from drctl.model.finding import Finding, Status
from drctl.model.topology import Unavailable

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
