"""Each observation of a link's clusters is requested once, however many checks need it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from drctl.checks.cluster_pair import Source, Target
from drctl.checks.ports import ClusterPorts
from drctl.model.topology import Found, Overview, TopicPartition, TopicState, Unavailable
from tests.links import link

STATES: Mapping[str, TopicState | Unavailable] = {
    "described": TopicState("described", {0: 1}, {"min.insync.replicas": "2"}),
    "hidden": TopicState("hidden", {0: 1}),
    "dark": Unavailable("no answer"),
}


@dataclass
class Everything:
    """All ports of a cluster in one object; records the arguments of health requests."""

    requests: list[Any] = field(default_factory=list)

    def overview(self) -> Overview:
        return Overview("id", dict.fromkeys(STATES, (0,)))

    def topics(self, names: Collection[str]) -> Mapping[str, TopicState | Unavailable]:
        return {name: STATES[name] for name in names}

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found]]:
        return lambda: [Found(0, 0) for _ in questions]

    def health(self, topics: Collection[str], known: Mapping[str, Mapping[str, str]]) -> str:
        self.requests += [sorted(topics), known]
        return "well"

    def __getattr__(self, name: str) -> Callable[..., tuple[()]]:
        return lambda *_: ()


def test_configurations_are_read_once() -> None:
    seen, other = Everything(), Everything()
    ports, source = (ClusterPorts(*[cast(Any, each)] * 6) for each in (seen, other))
    over = link(topics=[".*"])
    target = Target(over, ports, Source(over, source, 5), 5)
    target.health.value()
    assert seen.requests == [sorted(STATES), {"described": {"min.insync.replicas": "2"}}]
