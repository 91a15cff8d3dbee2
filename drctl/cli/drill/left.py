"""What drills that are over, or whose process is gone, left on this machine and on the clusters."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drctl.cli.console import console
from drctl.cli.drill import wiring as drill_wiring
from drctl.drill.cleaning import Cleaned, Left, Ports, clean, left_on
from drctl.drill.history import Past, Verdict, read
from drctl.drill.names import MARK, began, drill_of
from drctl.model.strict_json import read_json

if TYPE_CHECKING:
    from drctl.cli.drill.inject import Injected
    from drctl.config.configuration import Config
    from drctl.config.link import Link

NOTE, ALIVE = "drill.json", "alive"

LONGEST = timedelta(hours=6)
"""No drill takes so long: one of another machine that began before that is dead."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What is on both clusters of a link.

    Attributes:
        dead: drills that made it and are gone.
        spared: others, each with the reason why theirs is left alone.
    """

    lefts: tuple[Left, ...]
    dead: frozenset[str]
    spared: Mapping[str, str]

    @property
    def words(self) -> tuple[str, ...]:
        """What the dead left, each in words."""
        return tuple(what for left in self.lefts for what in left.of(self.dead).words)


def leftovers(config: "Config", source: Ports, target: Ports, *, everything: bool) -> Leftovers:
    """Look for them.

    Args:
        everything: whether also of drills of other machines that may still be at work.

    Raises:
        Unreachable: a cluster did not answer.
    """
    lefts = (left_on(source), left_on(target))
    dead, spared = set(), {}
    for drill in sorted(lefts[0].drills | lefts[1].drills):
        place = drill_wiring.folder(config) / drill
        if drill_wiring.is_alive(place / ALIVE):
            spared[drill] = "it is at work on this machine"
        elif everything or place.is_dir() or datetime.now(UTC) - began(drill) > LONGEST:
            dead.add(drill)
        else:
            spared[drill] = "it may be at work on another machine: --clean deletes it all the same"
    return Leftovers(lefts, frozenset(dead), spared)


def clean_up(
    source: Ports, target: Ports, drills: frozenset[str], wait: Callable[[float], None]
) -> Cleaned:
    """Delete what these drills made, and tell of it.

    Raises:
        Unreachable: a cluster did not answer.
    """
    done = clean(source, target, drills, wait)
    for what in done.left:
        console().warn(f"still there: {what}")
    return done


def note(config: "Config", drill: str, link: "Link", fault: Mapping[str, str] | None) -> None:
    """Keep what a later drill needs to know of this one, should it die."""
    from drctl.report.private_file import write_whole

    document = {"link": link.name, "inject": dict(fault) if fault else None}
    write_whole(drill_wiring.folder(config) / drill / NOTE, json.dumps(document) + "\n")


def bury(config: "Config") -> Sequence[str]:
    """Take back faults of drills that died on this machine, and write them into the history.

    Raises:
        Stopped: a fault cannot be taken back.
    """
    history = drill_wiring.history(config)
    buried = []
    for drill, document in _unburied(config):
        fault = _fault(document)
        if fault is not None:
            console().progress(f"taking back {fault.fault.value} of a drill that died")
            fault.undo()
        history.append(_died(drill, document).line())
        buried.append(drill)
    return buried


def lasting(config: "Config") -> Sequence[str]:
    """Faults that nobody took back since a drill of this machine died, each in words."""
    faults = ((drill, _fault(document)) for drill, document in _unburied(config))
    return [f"{fault.words}, by drill {drill}" for drill, fault in faults if fault is not None]


def _unburied(config: "Config") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Drills of this machine that died and are not in the history yet, each with its note."""
    known = {past.drill for past in read(drill_wiring.history(config).lines())[0]}
    for file in sorted(drill_wiring.folder(config).glob(f"*/{NOTE}")):
        drill = file.parent.name
        if drill in known or drill_of(f"{MARK}{drill}") is None:
            continue
        if not drill_wiring.is_alive(file.parent / ALIVE):
            yield drill, _noted(file)


def _noted(file: Path) -> Mapping[str, Any]:
    try:
        found = read_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _fault(document: Mapping[str, Any]) -> "Injected | None":
    from drctl.cli.drill.inject import Injected

    data = document.get("inject")
    if not isinstance(data, dict):
        return None
    try:
        return Injected.from_json(data)
    except (KeyError, ValueError):
        return None


def _died(drill: str, document: Mapping[str, Any]) -> Past:
    inject = document.get("inject")
    kind = str(inject.get("fault", "")) if isinstance(inject, dict) else ""
    why = ("its process was gone before it ended",)
    link = str(document.get("link", ""))
    return Past(drill, link, began(drill), Verdict.DIED, inject=kind, reasons=why)


def told(spared: Mapping[str, str]) -> Iterable[str]:
    """Drills whose things are left alone, a line each."""
    return (f"drill {drill}: {why}" for drill, why in spared.items())
