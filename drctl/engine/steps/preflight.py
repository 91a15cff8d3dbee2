"""Asks the guards; the plan goes on only where all of them allow it or were passed over."""

from collections.abc import Mapping, Sequence

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.errors import Refused
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
        """Refuse where a guard fails that is not passed over.

        Raises:
            Refused: one does; each is named.
        """
        findings = look.findings(settings["mode"])
        failing = failures(findings, settings["overrides"])
        if failing:
            raise Refused(
                "; ".join(f"{each.check}: {each.subject}: {each.reason}" for each in failing),
                "; ".join(dict.fromkeys(each.cure for each in failing if each.cure)),
            )
        return {"warnings": [_told(each) for each in findings if each.status is not Status.OK]}

    def verify(self, intent: Json, look: Look) -> Seen:
        """They were asked a moment ago."""
        warnings = intent["warnings"]
        return Seen(State.DONE, f"no guard fails; {len(warnings)} to know of", intent)


def failures(findings: Sequence[Finding], overrides: Mapping[str, str]) -> tuple[Finding, ...]:
    """Those that stand against the plan."""
    return tuple(
        each for each in findings if each.status is Status.FAIL and each.check not in overrides
    )


def _told(finding: Finding) -> str:
    return f"{finding.check}: {finding.subject}: {finding.reason}"
