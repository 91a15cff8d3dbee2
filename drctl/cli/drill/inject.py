"""Faults for drills, in the lab alone: sent through the lab's own commands."""

import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drctl.config.mirrors import brokers
from drctl.model.errors import Refused, Stopped
from drctl.model.strict_json import read_json
from drctl.systems import presence

if TYPE_CHECKING:
    from drctl.config.link import Link

_CALL_S = 180.0
_ANSWER_S = 60.0
_LOOK_EVERY_S = 0.5
_CONNECT = "connect"
_HANGS, _ANSWERS = "stopped", "answering"


class Fault(StrEnum):
    """What is done to the lab while applications are at work."""

    KILL_SOURCE = "kill-source"
    PAUSE_SOURCE = "pause-source"
    STOP_CONNECT = "stop-connect"

    @property
    def loses_source(self) -> bool:
        """Whether the failover that follows is an unplanned one."""
        return self is not Fault.STOP_CONNECT


# The command of the lab that does it, and the one that takes it back.
_COMMANDS = {
    Fault.KILL_SOURCE: ("kill", "start"),
    Fault.PAUSE_SOURCE: ("stop", "cont"),
    Fault.STOP_CONNECT: ("kill", "start"),
}


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault of one lab.

    Attributes:
        part: of the lab, that it is done to.
        folder: of the lab; empty for the user's own.
    """

    fault: Fault
    part: str
    folder: str

    def strike(self) -> None:
        """Do it.

        Raises:
            Stopped: the lab did not.
        """
        self._call(_COMMANDS[self.fault][0])

    @property
    def words(self) -> str:
        """What it is, in words."""
        return f"fault {self.fault.value}, done to {self.part} of the lab"

    def undo(self) -> None:
        """Take it back, and see the part answer; may be done again.

        Raises:
            Stopped: the lab did not.
        """
        states = self._states()
        # A lab that is gone has taken its faults along, and what is dead does not hang any more.
        if not states or (self.fault is Fault.PAUSE_SOURCE and _HANGS not in states):
            return
        self._call(_COMMANDS[self.fault][1])
        until = time.monotonic() + _ANSWER_S
        while set(self._states()) != {_ANSWERS}:
            if time.monotonic() >= until:
                raise Stopped(
                    f"{self.part} of the lab does not answer {_ANSWER_S:g} s after"
                    f" {self.fault.value} was taken back",
                    "drctl lab status tells what runs",
                )
            time.sleep(_LOOK_EVERY_S)
        # What was silent because of the fault is asked anew.
        presence.everybody_anew()

    def to_json(self) -> dict[str, str]:
        """As it is kept while it lasts."""
        return {"fault": self.fault.value, "part": self.part, "folder": self.folder}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Injected":
        """From what `to_json` made.

        Raises:
            KeyError, ValueError: it did not.
        """
        return cls(Fault(data["fault"]), str(data["part"]), str(data["folder"]))

    def _states(self) -> tuple[str, ...]:
        """Of each process of the part; none where there is no such lab any more."""
        return tuple(
            str(each["state"])
            for each in _status(self.folder).get("parts", ())
            if self.part in (each["name"], str(each["name"]).rpartition("-")[0])
        )

    def _call(self, command: str) -> None:
        ended = _lab(command, self.part, folder=self.folder)
        # Ends with 1 where a part of the lab does not answer: that is what a fault is for.
        if ended.returncode not in (0, 1):
            raise Stopped(
                f"drctl lab {command} {self.part} ended with {ended.returncode}: {_said(ended)}",
                "drctl lab status tells what runs",
            )


def injected(fault: Fault, link: "Link", folder: Path | None) -> Injected:
    """The fault, of the lab that the link's clusters belong to.

    Raises:
        Refused: they belong to none.
    """
    place = str(folder.absolute()) if folder else ""
    known = _status(place)
    clusters = {n: brokers(str(c["bootstrap"])) for n, c in known.get("clusters", {}).items()}
    parts = [_part(clusters, bootstrap) for bootstrap in _bootstraps(link)]
    if None in parts:
        raise Refused(
            f"link {link.name} is not between the clusters of a lab: faults are injected there"
            " alone",
            "drctl lab up, then drctl lab env; --lab DIR names a lab that is elsewhere",
        )
    source = parts[0] or ""
    return Injected(fault, source if fault.loses_source else _CONNECT, place)


def _bootstraps(link: "Link") -> tuple[frozenset[str], ...]:
    from drctl.cli.wiring import revealed

    ends = (link.source_config, link.target_config)
    return tuple(brokers(revealed(end)["bootstrap.servers"]) for end in ends)


def _part(clusters: Mapping[str, frozenset[str]], bootstrap: frozenset[str]) -> str | None:
    return next((name for name, known in clusters.items() if bootstrap <= known), None)


def _status(folder: str) -> Mapping[str, Any]:
    """What `drctl lab status` says; nothing where there is no lab."""
    ended = _lab("status", folder=folder)
    found: dict[str, Any] = read_json(ended.stdout) if ended.returncode in (0, 1) else {}
    return found


def _said(ended: "subprocess.CompletedProcess[str]") -> str:
    """Why it ended so."""
    try:
        return str(read_json(ended.stdout)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        said = ended.stderr.strip().splitlines()
        return said[0] if said else "it said nothing"


def _lab(*words: str, folder: str) -> "subprocess.CompletedProcess[str]":
    line = [sys.executable, "-m", "drctl", "lab", *words, *(("--dir", folder) if folder else ())]
    try:
        return subprocess.run(
            [*line, "--output", "json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_CALL_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Stopped(
            f"drctl lab {words[0]} did not end: {error.__class__.__name__}", "drctl lab status"
        ) from error
