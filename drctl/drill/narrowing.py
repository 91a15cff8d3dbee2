"""A link as it is, but for topics and groups: those of a drill alone."""

from dataclasses import replace

from drctl.config.link import Link
from drctl.config.schema import FenceConfig
from drctl.drill.names import Scratch


def narrowed(link: Link, scratch: Scratch, principals: tuple[str, ...]) -> Link:
    """The link over which the engine rehearses.

    Args:
        principals: whom its fence denies; empty where the drill's writer stops by itself.
    """
    settings = link.settings.model_copy(
        update={
            "topics": (scratch.topic,),
            "exclude": (),
            "groups": (scratch.group.replace(".", r"\."),),
            "translate": True,
            "fence": FenceConfig(method="acl" if principals else "none", principals=principals),
        }
    )
    return replace(link, settings=settings)
