"""The file that tells applications where their cluster is: an endpoint of the link."""

from dataclasses import dataclass
from pathlib import Path

from drctl.lab.cluster import LabCluster
from drctl.model.errors import Stopped

USER = "orders-app"
"""What the applications log in as."""


@dataclass(frozen=True, slots=True)
class Signpost:
    """Applications look at it before they connect, and while they are at work.

    Attributes:
        file: holds the bootstrap address of one of the clusters.
    """

    file: Path
    clusters: tuple[LabCluster, ...]

    def point_to(self, name: str) -> None:
        """As it stands before the story begins."""
        bootstrap = next(each.bootstrap for each in self.clusters if each.name == name)
        self.file.write_text(f"{bootstrap}\n", encoding="utf-8")

    def cluster(self) -> LabCluster:
        """Where applications are sent.

        Raises:
            Stopped: to none of the lab's clusters.
        """
        said = self.file.read_text(encoding="utf-8").strip()
        for each in self.clusters:
            if each.bootstrap == said:
                return each
        raise Stopped(f"{self.file} names no cluster of the lab: {said}")
