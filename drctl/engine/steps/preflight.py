"""Asks the guards; the plan goes on only where all of them allow it or were passed over."""

from collections.abc import Iterable, Mapping

from drctl.checks.causes import in_words, told_once
from drctl.checks.standing import standing_against
from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.errors import Refused
from drctl.model.failover import Mode
from drctl.model.finding import Finding, Status
from drctl.model.plan import Json


class Preflight(Looking):
    """Looks at everything that a failover rests on."""

    name = "preflight"
    traits = Trait.JUDGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        title = "ask the guards: both clusters, replication, groups, endpoints"
        passed = ", ".join(sorted(settings["overrides"])) or "none"
        return Description(title, f"no guard fails (passed over: {passed})")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Refuse where a guard stands against it that is not passed over.

        Raises:
            Refused: one does; each is named.
        """
        overrides = settings["overrides"]
        left_out = settings.get("not_asked", ())
        said = look.findings(settings["mode"])
        findings = [each for each in said if each.check not in left_out]
        standing = failures(findings, overrides, Mode(settings["mode"]))
        if standing:
            raise Refused(
                "; ".join(in_words(standing)),
                "; ".join(dict.fromkeys(each.cure for each in standing if each.cure)),
            )
        others = [each for each in findings if each.status is not Status.OK]
        told, unseen = told_once(others)
        return {
            "warnings": [_told(each) for each in told],
            "unseen": [
                {"what": u.because.what, "why": u.because.why, "checks": list(u.checks)}
                for u in unseen
            ],
            "passed_over": {
                each.check: overrides[each.check] for each in others if each.check in overrides
            },
        }

    def verify(self, intent: Json, look: Look) -> Seen:
        """They were asked a moment ago."""
        warnings, unseen = intent["warnings"], intent.get("unseen", ())
        told = "".join(f"; {len(u['checks'])} could not look: {u['what']}" for u in unseen)
        return Seen(State.DONE, f"no guard fails; {len(warnings)} to know of{told}", intent)


def failures(
    findings: Iterable[Finding], overrides: Mapping[str, str], mode: Mode = Mode.PLANNED
) -> tuple[Finding, ...]:
    """Those that stand against the plan; a planned failover needs most."""
    return standing_against(findings, overrides, mode)


def _told(finding: Finding) -> str:
    unknown = " (not checked)" if finding.status is Status.NOT_CHECKED else ""
    return f"{finding.check}: {finding.subject}: {finding.reason}{unknown}"
