"""An endpoint of kind `command`: a switch of the tests' own, which takes until it may."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import command_endpoint_program

_LINE = (sys.executable, "-P", str(Path(command_endpoint_program.__file__)))


def endpoint() -> dict[str, Any]:
    """As drctl.yaml names it."""
    return {"kind": "command", "argv": [*_LINE, "to", "{cluster}"], "observe": [*_LINE, "shown"]}


@dataclass(frozen=True)
class Switch:
    """That of a drctl.yaml in this folder."""

    folder: Path

    @property
    def file(self) -> Path:
        """What names the cluster that clients are sent to."""
        return self.folder / command_endpoint_program.LED_TO

    def lead_to(self, cluster: str) -> None:
        """Put it so."""
        self.file.write_text(cluster, encoding="utf-8")

    def go(self) -> None:
        """From now on it may switch."""
        (self.folder / command_endpoint_program.GO).touch()

    @property
    def led_to(self) -> str:
        """Where clients are sent."""
        return self.file.read_text(encoding="utf-8")

    @property
    def switched(self) -> list[str]:
        """To which clusters it has switched, in this order."""
        return (self.folder / command_endpoint_program.SWITCHED).read_text(encoding="utf-8").split()
