"""Orders findings by cause, and groups findings that share one cause."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drctl.model.finding import Finding, SharedCause, Status
from drctl.model.text import plural

NOBODY = "no-cluster-answers"
UNFINISHED, MOVED, SILENT = "runs-unfinished", "clients-moved", "source-unreachable"

_BEFORE_FAILOVER = frozenset(
    {
        *(SILENT, "connect-unreachable", "endpoint-not-on-source", "fence-not-possible"),
        *(
            "groups-active-on-target",
            "groups-not-translated",
            "groups-active-on-both",
            "groups-without-coordinator",
        ),
        *("hanging-transactions", "mm2-checkpoint-age", "mm2-connectors", "mm2-heartbeat-age"),
        *("acl-parity", "policy.max_rpo_seconds", "replication-lag"),
        *("replication-not-running", "backlog-near-retention", "source-alive"),
        *("copies-differ", "unexpected-writers"),
    }
)
"""Checks that prepare a failover; after a failover, their remedies would do harm."""

_NEEDS_SOURCE = frozenset(
    {
        *(
            "fence-not-possible",
            "groups-not-translated",
            "groups-without-coordinator",
            "hanging-transactions",
        ),
        *("producer-ids-collide", "replication-lag", "backlog-near-retention"),
    }
)
"""Checks that need a source that answers."""

_Follows = Callable[[Finding, Finding], bool]

CAUSES: Mapping[str, _Follows] = {
    # If no cluster answers, nothing is known.
    NOBODY: lambda _cause, _other: True,
    # An unfinished run leaves states that look like faults.
    UNFINISHED: lambda _cause, _other: True,
    MOVED: lambda _cause, other: other.check in _BEFORE_FAILOVER,
    SILENT: lambda cause, other: (
        other.check in _NEEDS_SOURCE or cause.evidence in f"{other.reason} {other.evidence}"
    ),
}
"""For each check, most important first: whether another finding is a consequence of its finding."""


def causes_first(
    findings: Sequence[Finding], overrides: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Put the cause first; consequences get the name of the cause instead of their remedies.

    Args:
        overrides: overridden prechecks, which count as no cause.
    """
    name, cause = _cause(findings, overrides)
    if cause is None:
        return tuple(findings)
    first = [each for each in findings if each.check == name]
    rest = [each for each in findings if each.check != name]
    referring = (replace(f, remedy=f"see {name}") if _follows(cause, f) else f for f in rest)
    return (*first, *referring)


def network_suspected(findings: Iterable[Finding]) -> str:
    """The headline if neither cluster responds; else empty."""
    found = (f for f in findings if f.check == NOBODY and f.status is Status.FAIL)
    return next((f"{each.reason}: {each.evidence}" for each in found), "")


def without_consequences(
    findings: Sequence[Finding], overrides: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return the findings that are not consequences of another one."""
    _, cause = _cause(findings, overrides)
    return tuple(f for f in findings if cause is None or not _follows(cause, f))


def _cause(findings: Sequence[Finding], overrides: Collection[str]) -> tuple[str, Finding | None]:
    for name in CAUSES:
        if name in overrides:
            continue
        for each in findings:
            if each.check == name and each.status is Status.FAIL:
                return name, each
    return "", None


def _follows(cause: Finding, other: Finding) -> bool:
    bad = other.status is not Status.OK and other.check != cause.check
    return bad and CAUSES[cause.check](cause, other)


_REPORTING_CHECKS = frozenset(
    {NOBODY, SILENT, "connect-unreachable", "source-alive", "target-unreachable"}
)
"""Checks that report a cause themselves."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Checks that could not run for the same cause.

    Attributes:
        reported_by: the check that reports the cause; empty if none does.
    """

    cause: SharedCause
    findings: tuple[Finding, ...]
    reported_by: str = ""

    @property
    def checks(self) -> tuple[str, ...]:
        """The names of the checks."""
        return tuple(dict.fromkeys(each.check for each in self.findings))

    @property
    def count(self) -> str:
        """The number of checks, in words."""
        return plural(len(self.checks), "check")

    @property
    def message(self) -> str:
        """The checks and the cause in one line."""
        return f"{self.count} could not run: {self.cause.why} ({', '.join(self.checks)})"

    @property
    def remedy(self) -> str:
        """The common remedy; empty if each has its own."""
        remedies = {each.remedy for each in self.findings}
        return remedies.pop() if len(remedies) == 1 else ""


def group_by_cause(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], tuple[Unseen, ...]]:
    """Split findings into those with their own cause and groups that share one."""
    about = {f.cause: f.check for f in findings if _is_the_cause(f)}
    sharing: dict[SharedCause, list[Finding]] = {}
    for each in findings:
        if each.cause is not None and not _is_the_cause(each) and _could_not_run(each):
            sharing.setdefault(each.cause, []).append(each)
    unseen = tuple(
        Unseen(cause, tuple(members), about.get(cause, ""))
        for cause, members in sharing.items()
        if len({each.check for each in members}) > 1 or cause in about
    )
    folded = {id(each) for group in unseen for each in group.findings}
    return tuple(each for each in findings if id(each) not in folded), unseen


def one_per_reason(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Join findings that differ only in their subject."""
    subjects: dict[Finding, list[str]] = {}
    for each in findings:
        subjects.setdefault(replace(each, subject=""), []).append(each.subject)
    return tuple(replace(each, subject=", ".join(named)) for each, named in subjects.items())


def in_words(findings: Sequence[Finding]) -> tuple[str, ...]:
    """One line per finding, and one line per shared cause."""
    own, unseen = group_by_cause(findings)
    lines = (f"{each.check}: {each.subject}: {each.reason}" for each in own)
    return (*lines, *(each.message for each in unseen))


def _is_the_cause(finding: Finding) -> bool:
    return finding.cause is not None and finding.check in _REPORTING_CHECKS


def _could_not_run(finding: Finding) -> bool:
    """Whether a check could not run, rather than found something."""
    refers = finding.remedy in (f"see {SILENT}", f"see {NOBODY}")
    return finding.status is Status.NOT_CHECKED or refers
