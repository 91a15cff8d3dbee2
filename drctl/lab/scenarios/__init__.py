"""Stories that play on the lab: `drctl lab run NAME`. One file a story, one line here."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from drctl.lab.scenarios import lost_primary
from drctl.lab.scenarios.stage import Ending, Stage

Story = Callable[[Stage], Ending]

SCENARIOS: Mapping[str, Story] = MappingProxyType({"lost-primary": lost_primary.play})
