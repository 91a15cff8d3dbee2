"""Groups of KIP-848 made ready on a cluster whose members come from elsewhere.

A member that arrives with its member epoch dies (GROUP_ID_NOT_FOUND) where its group is not known,
or only by offsets. Where it is known as an empty group of the new protocol, it joins anew.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from drctl.model.topology import Unavailable


class GroupCreator(Protocol):
    """Makes groups known as groups of the protocol of KIP-848."""

    def create(self, names: Collection[str]) -> Mapping[str, Unavailable | None]:
        """Make each known, and leave it empty; by group None where it is, or why it is not.

        Nothing is subscribed to, read or committed; what was committed stays. Repeated, it changes
        nothing. An empty group without positions is forgotten after some minutes: set them next.

        Raises:
            Unreachable: no broker answered within the deadline.
            ConfigError: the properties cannot be used for this.
        """
