"""Which finding comes first, and what is told once: the cause of others, and not each of them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from drctl.model.finding import Because, Finding, Status

NOBODY = "nobody-answers"
UNFINISHED, MOVED, SILENT = "runs-unfinished", "clients-moved", "source-unreachable"

_OF_THE_WAY_THERE = frozenset(
    {
        *(SILENT, "connect-unreachable", "endpoint-elsewhere", "fence-not-possible"),
        *("groups-active-on-target", "groups-left-out", "groups-on-both", "groups-unseen"),
        *("hanging-transactions", "mm2-checkpoint-age", "mm2-connectors", "mm2-heartbeat-age"),
        *("parity-of-acls", "policy.max_rpo_seconds", "producer-ids-collide", "replication-lag"),
        *("replication-not-running", "retention-near-tail", "source-alive"),
    }
)
"""What readies a failover that has been made: its cures would undo it, or stop who was moved."""

_OF_THE_SOURCE = frozenset(
    {
        *("fence-not-possible", "groups-left-out", "groups-unseen", "hanging-transactions"),
        *("producer-ids-collide", "replication-lag", "retention-near-tail"),
    }
)
"""What only a source that answers tells."""

_Follows = Callable[[Finding, Finding], bool]

CAUSES: Mapping[str, _Follows] = {
    # Where nobody could be asked, nothing is known of anything.
    NOBODY: lambda _cause, _other: True,
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
    led_back = (replace(f, remedy=f"see {name}") if _follows(cause, f) else f for f in rest)
    return (*first, *led_back)


def network_suspected(findings: Iterable[Finding]) -> str:
    """What is said before anything else where neither cluster answers; else empty."""
    found = (f for f in findings if f.check == NOBODY and f.status is Status.FAIL)
    return next((f"{each.subject}: {each.reason}" for each in found), "")


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


_SAY_IT_THEMSELVES = frozenset(
    {NOBODY, SILENT, "connect-unreachable", "source-alive", "target-unreachable"}
)
"""Checks that are about a cause: what they say is no consequence of it."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Checks that could not look, all for the same cause.

    Attributes:
        said_by: the check that is about the cause; empty where none is.
    """

    because: Because
    findings: tuple[Finding, ...]
    said_by: str = ""

    @property
    def checks(self) -> tuple[str, ...]:
        """Their names, each once."""
        return tuple(dict.fromkeys(each.check for each in self.findings))

    @property
    def count(self) -> str:
        """How many, in words."""
        number = len(self.checks)
        return f"{number:,} checks" if number != 1 else "1 check"

    @property
    def words(self) -> str:
        """All of it in one line."""
        return f"{self.count} could not look: {self.because.why} ({', '.join(self.checks)})"

    @property
    def remedy(self) -> str:
        """What to do about all of them at once; empty where each has its own."""
        cures = {each.remedy for each in self.findings}
        return cures.pop() if len(cures) == 1 else ""


def told_once(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], tuple[Unseen, ...]]:
    """Findings that say something of their own, and one line for those that share a cause."""
    about = {f.because: f.check for f in findings if _is_the_cause(f)}
    sharing: dict[Because, list[Finding]] = {}
    for each in findings:
        if each.because is not None and not _is_the_cause(each) and _could_not_look(each):
            sharing.setdefault(each.because, []).append(each)
    unseen = tuple(
        Unseen(because, tuple(members), about.get(because, ""))
        for because, members in sharing.items()
        if len({each.check for each in members}) > 1 or because in about
    )
    folded = {id(each) for group in unseen for each in group.findings}
    return tuple(each for each in findings if id(each) not in folded), unseen


def in_words(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Each finding in a line; those that share a cause in one."""
    told, unseen = told_once(findings)
    lines = (f"{each.check}: {each.subject}: {each.reason}" for each in told)
    return (*lines, *(each.words for each in unseen))


def _is_the_cause(finding: Finding) -> bool:
    return finding.because is not None and finding.check in _SAY_IT_THEMSELVES


def _could_not_look(finding: Finding) -> bool:
    """Whether nothing is known; that it blocks a failover all the same is no finding."""
    led_back = finding.remedy in (f"see {SILENT}", f"see {NOBODY}")
    return finding.status is Status.NOT_CHECKED or led_back
