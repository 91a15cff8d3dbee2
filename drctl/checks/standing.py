"""What stands against a failover, and what an engineer may pass over."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches

from drctl.checks.registry import CHECKS, GUARDS
from drctl.model.errors import UsageError
from drctl.model.failover import Mode
from drctl.model.finding import Finding, Status

_ADVICE = frozenset(check.name for check in CHECKS) - GUARDS.keys()
"""Checks that `doctor` asks and no failover is refused for."""


def standing_against(
    findings: Iterable[Finding], overrides: Collection[str], mode: Mode
) -> tuple[Finding, ...]:
    """Findings for which a failover is refused.

    A guard that fails stands against it; so does one that was not checked, where the failover
    rests on what it would have said. What nobody may pass over stands whatever was overridden.
    """
    return tuple(
        finding
        for finding in findings
        if _stands(finding, mode) and not _passed_over(finding.check, overrides)
    )


def parse_overrides(given: Iterable[str], others: Collection[str] = ()) -> Mapping[str, str]:
    """`GUARD=REASON` as typed: guard to the reason why it is passed over.

    Args:
        others: names of guards that are kept elsewhere, and may be passed over, too.

    Raises:
        UsageError: there is no such guard, it cannot be passed over, or no reason is given.
    """
    found: dict[str, str] = {}
    for text in given:
        name, _, reason = (part.strip() for part in text.partition("="))
        _check_known(name, others)
        if not reason:
            raise UsageError(
                f"--override {name} needs a reason",
                f"write --override {name}=REASON: it is kept in the journal and the report",
            )
        found[name] = reason
    return found


def overridable(others: Collection[str] = ()) -> Sequence[str]:
    """Names of all guards that may be passed over, sorted."""
    own = (name for name, check in GUARDS.items() if check.guards and check.guards.overridable)
    return sorted({*own, *others})


def _check_known(name: str, others: Collection[str]) -> None:
    known = overridable(others)
    if name in known:
        return
    if name in GUARDS:
        raise UsageError(
            f"guard {name} cannot be passed over: without it the run could not be made",
            f"it holds where {GUARDS[name].about}",
        )
    near = get_close_matches(name, known, 1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no guard {name!r}", f"{meant}the guards: {', '.join(known)}")


def _stands(finding: Finding, mode: Mode) -> bool:
    if finding.check in _ADVICE:
        return False
    if finding.status is not Status.NOT_CHECKED:
        return finding.status is Status.FAIL
    check = GUARDS.get(finding.check)
    return check is not None and check.guards is not None and mode in check.guards.needed


def _passed_over(name: str, overrides: Collection[str]) -> bool:
    check = GUARDS.get(name)
    final = check is not None and check.guards is not None and not check.guards.overridable
    return name in overrides and not final
