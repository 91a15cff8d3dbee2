"""Scenarios that run on the lab: `drctl lab run NAME`. One module each, registered here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from drctl.lab.scenarios import lost_primary
from drctl.lab.scenarios.stage import ScenarioResult, Stage

Scenario = Callable[[Stage], ScenarioResult]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType({"lost-primary": lost_primary.play})
