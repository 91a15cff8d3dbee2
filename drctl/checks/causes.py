"""Which finding comes first: what has its cause in another one is not cured by itself."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from drctl.model.finding import Finding, Status

UNFINISHED, MOVED, SILENT = "runs-unfinished", "clients-moved", "source-unreachable"

_OF_THE_WAY_THERE = frozenset(
    {
        "connect-unreachable",
        "endpoint-elsewhere",
        "fence-not-possible",
        "groups-active-on-target",
        "groups-left-out",
        "groups-on-both",
        "groups-unseen",
        "hanging-transactions",
        "mm2-checkpoint-age",
        "mm2-connectors",
        "mm2-heartbeat-age",
        "parity-of-acls",
        "policy.max_rpo_seconds",
        "producer-ids-collide",
        "replication-lag",
        "replication-not-running",
        "retention-near-tail",
        "source-alive",
        SILENT,
    }
)
"""What readies a failover that has been made: its cures would undo it, or stop who was moved."""

_OF_THE_SOURCE = frozenset(
    {
        "fence-not-possible",
        "groups-left-out",
        "groups-unseen",
        "hanging-transactions",
        "producer-ids-collide",
        "replication-lag",
        "retention-near-tail",
    }
)
"""What only a source that answers tells."""

_Follows = Callable[[Finding, Finding], bool]

CAUSES: Mapping[str, _Follows] = {
    # Whatever is half a change looks like a fault.
    UNFINISHED: lambda _cause, _other: True,
    MOVED: lambda _cause, other: other.check in _OF_THE_WAY_THERE,
    SILENT: lambda cause, other: (
        other.check in _OF_THE_SOURCE or cause.evidence in f"{other.reason} {other.evidence}"
    ),
}
"""By check: whether another finding is a consequence of what it says. The weightiest first."""


def causes_first(
    findings: Sequence[Finding], overrides: Collection[str] = ()
) -> tuple[Finding, ...]:
    """The cause in front, and in place of the cures of what follows from it, its name.

    Args:
        overrides: guards that are passed over: these are no cause.
    """
    name, cause = _cause(findings, overrides)
    if cause is None:
        return tuple(findings)
    first = [each for each in findings if each.check == name]
    rest = [each for each in findings if each.check != name]
    return (*first, *(_led_back(cause, each) for each in rest))


def without_consequences(
    findings: Sequence[Finding], overrides: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Those that are to be cured now."""
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


def _led_back(cause: Finding, other: Finding) -> Finding:
    return replace(other, cure=f"see {cause.check}") if _follows(cause, other) else other
