"""Why a link is failed over."""

from enum import StrEnum


class Mode(StrEnum):
    """The two kinds of failover; what is allowed differs."""

    PLANNED = "planned"
    """Both clusters are alive: nothing may be lost."""
    UNPLANNED = "unplanned"
    """The source is dead, cut off or wrong: what was not copied is found later."""
