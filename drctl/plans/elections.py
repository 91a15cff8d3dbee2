"""The plan that has leaders elected inside one cluster."""

from drctl.elections.planning import Aim, ElectionPlan
from drctl.model.plan import Plan
from drctl.steps.elections import ElectLeaders, ElectSettings

_PATIENCE_S = 30.0


def election(found: ElectionPlan, link: str) -> Plan:
    """The plan; it has no steps where nobody can be elected.

    Args:
        link: what runs of this cluster have for a link: see `Config.inside`.
    """
    overrides = {precheck.value: why for precheck, why in found.overrides.items()}
    aims = tuple(Aim.of(line) for line in found.elected)
    settings = ElectSettings(found.cluster, found.kind, aims, overrides)
    steps = (ElectLeaders().step("elect", settings, _PATIENCE_S),) if aims else ()
    refused = {
        f"refused {line.place}": ", ".join(each.precheck for each in line.refused)
        for line in found.refused
    }
    basis = {f"cluster {found.cluster}": found.cluster_id, **refused}
    name = f"elect-{found.kind}"
    return Plan(name, link, found.cluster, found.cluster, steps, basis, overrides)
