"""Asks some guards by their names; what nobody looked at is not passed over."""

from collections.abc import Iterator, Mapping, Sequence

from drctl.engine.kind import Description, Facts, Looking, Seen, State, Trait
from drctl.engine.ports import Look
from drctl.model.errors import Refused
from drctl.model.finding import Finding, Status
from drctl.model.plan import Json

_AGAINST = frozenset({Status.FAIL, Status.NOT_CHECKED})


class CheckGuards(Looking):
    """Refuses where one of them fails, could not look, or has nothing to say."""

    name = "check"
    traits = Trait.JUDGES

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        return Description(f"ask the guards: {', '.join(settings['guards'])}", "none of them fails")

    def check(self, settings: Json, facts: Facts, look: Look) -> Json:
        """Ask them.

        Raises:
            Refused: one stands against it that is not passed over; each is named.
        """
        names = settings["guards"]
        found = [each for each in look.findings(settings["mode"]) if each.check in names]
        against = list(_against(names, found, settings["overrides"]))
        if against:
            cures = dict.fromkeys(each.cure for each in found if _stands(each) and each.cure)
            raise Refused("; ".join(against), "; ".join(cures))
        told = [f"{each.check}: {each.subject}: {each.status.value}" for each in found]
        return {"guards": list(names), "told": told}

    def verify(self, intent: Json, look: Look) -> Seen:
        """They were asked a moment ago."""
        return Seen(State.DONE, f"none of {len(intent['guards'])} guards fails", intent)


def _against(
    names: Sequence[str], found: Sequence[Finding], overrides: Mapping[str, str]
) -> Iterator[str]:
    for name in names:
        if name in overrides:
            continue
        said = [each for each in found if each.check == name]
        if not said:
            yield f"{name}: nobody looked: it does not concern this link"
        for each in filter(_stands, said):
            yield f"{each.check}: {each.subject}: {each.reason}"


def _stands(finding: Finding) -> bool:
    return finding.status in _AGAINST
