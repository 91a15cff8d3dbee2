"""What drctl's own user may do with a cluster."""

from typing import Protocol

from drctl.model.topology import Unavailable

ALTER = "ALTER"
"""On the cluster: adding and removing ACLs."""


class RightsReader(Protocol):
    """Looks at what this user may do; changes nothing."""

    def operations(self) -> frozenset[str] | Unavailable:
        """With the cluster itself, in Kafka's words; or why that is not known.

        Raises:
            Unreachable: no broker answered within the deadline.
        """
