"""An endpoint of kind `command`: a switch of the tests that waits for permission."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import command_endpoint_program

_LINE = (sys.executable, "-P", str(Path(command_endpoint_program.__file__)))


def endpoint() -> dict[str, Any]:
    """Return its section of drctl.yaml."""
    return {"kind": "command", "argv": [*_LINE, "to", "{cluster}"], "observe": [*_LINE, "shown"]}


@dataclass(frozen=True)
class Switch:
    """The switch of a drctl.yaml in this folder."""

    folder: Path

    @property
    def file(self) -> Path:
        """The file that names the cluster of the clients."""
        return self.folder / command_endpoint_program.LED_TO

    def direct_to(self, cluster: str) -> None:
        """Set the cluster."""
        self.file.write_text(cluster, encoding="utf-8")

    def go(self) -> None:
        """Permit switching from now on."""
        (self.folder / command_endpoint_program.GO).touch()

    @property
    def directed_to(self) -> str:
        """Return the cluster that clients are directed to."""
        return self.file.read_text(encoding="utf-8")

    @property
    def switched(self) -> list[str]:
        """Return the clusters that it was switched to, in order."""
        return (self.folder / command_endpoint_program.SWITCHED).read_text(encoding="utf-8").split()
