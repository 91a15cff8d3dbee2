"""Whether a connector brings copies home to the topics that they are copies of."""

from collections.abc import Mapping

from drctl.config.mirror_names import arrives_as
from drctl.config.mirrors import pattern_of
from drctl.failback.facts import Names
from drctl.model.topology import Unavailable

_ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"


def misled(config: Mapping[str, str], wanted: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What arrives elsewhere or not at all, and what nobody can tell; each in words."""
    wrong, unsure = [], []
    for copy, home in wanted.items():
        there = arrives_as(config, copy)
        if isinstance(there, Unavailable):
            unsure.append(f"{copy}: {there.reason}")
        elif there is None:
            wrong.append(f"{copy} is not copied")
        elif there != home:
            wrong.append(f"{copy} would come to {there}, not to {home}")
    return tuple(wrong), tuple(unsure)


def how_to_name(connector: str, wanted: Names) -> str:
    """The settings with which it brings them home."""
    topics, prefix = ",".join(map(pattern_of, wanted)), _prefix(wanted)
    told = [
        f"of connector {connector}, while it is STOPPED, set topics={topics}",
        "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    ]
    if prefix:
        told += [
            "transforms=home",
            f"transforms.home.type={_ROUTER}",
            f"transforms.home.regex={pattern_of(prefix)}(.*)",
            "transforms.home.replacement=$1",
        ]
    return "; ".join(told)


def _prefix(wanted: Names) -> str:
    """What all copies have before their own names; empty where that is not the difference."""
    before = {copy.removesuffix(home) for copy, home in wanted.items() if copy.endswith(home)}
    return before.pop() if len(before) == 1 else ""
