"""What the steps that change topics have in common: the topics as they are now."""

from collections.abc import Collection, Mapping

from drctl.engine.ports import Look
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.model.repairs import TopicShape
from drctl.model.topology import Unavailable


def counted(number: int, what: str) -> str:
    """How many of something, in words."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def topics_of(changes: Json | Collection[Json]) -> tuple[str, ...]:
    """Those that they are about, each once."""
    return tuple(dict.fromkeys(str(each["topic"]) for each in changes))  # type: ignore[index]


def shapes(
    cluster: str, names: Collection[str], look: Look
) -> Mapping[str, TopicShape | Unavailable | None]:
    """The topics of a cluster; without names nobody is asked.

    Raises:
        Unreachable: it did not answer.
    """
    return look.shapes(cluster).shapes(names) if names else {}


def known_shapes(cluster: str, names: Collection[str], look: Look) -> Mapping[str, TopicShape]:
    """The same, where all of them must be there.

    Raises:
        Refused: one is not, or cannot be looked at.
        Unreachable: the cluster did not answer.
    """
    found: dict[str, TopicShape] = {}
    for name, shape in shapes(cluster, names, look).items():
        if shape is None:
            raise Refused(f"topic {name} is not on {cluster} any more", "make the plan anew")
        if isinstance(shape, Unavailable):
            raise Refused(f"topic {name} of {cluster} cannot be looked at: {shape.reason}")
        found[name] = shape
    return found
