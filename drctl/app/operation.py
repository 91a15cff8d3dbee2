"""A plan that was prepared, and who looks and acts for plans of its kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app.link_reader import ClusterLinkReader
from drctl.app.notices import People
from drctl.model.errors import ExitCode
from drctl.model.plan import Plan

if TYPE_CHECKING:
    from drctl.app.link_writer import ClusterLinkWriter
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.finding import Finding
    from drctl.model.loss import Loss
    from drctl.steps.commit_offsets import Foreseen


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, and what stands against it.

    Attributes:
        broken: rules of order that it breaks.
        failing: what prechecks have against it.
        execute: the command line that carries it out.
        loss: what would probably be lost; None where the plan loses nothing, or nobody asked yet.
        groups: where groups would resume, with the source lost; likewise.
    """

    plan: Plan
    findings: "Sequence[Finding]"
    broken: tuple[str, ...]
    failing: "Sequence[Finding]"
    execute: str
    loss: "Loss | None" = None
    groups: "Foreseen | None" = None

    @property
    def against(self) -> tuple[str, ...]:
        """All of it, in words."""
        from drctl.checks.causes import in_words

        return (*self.broken, *in_words(self.failing))

    @property
    def cures(self) -> tuple[str, ...]:
        """What helps, each once."""
        return tuple(dict.fromkeys(each.remedy for each in self.failing if each.remedy))


@dataclass(frozen=True, slots=True)
class Operation:
    """Who looks and acts for a plan, and which prechecks it asks before anything else.

    Attributes:
        reader: opens what looks, told whether the source is likely to be dead.
        writer: opens what acts, told the folder of the run.
        overrides: `PRECHECK=REASON` as typed.
        asked: the mode in which prechecks are asked about a plan; empty where it asks none.
        code: what showing it ends with.
    """

    reader: Callable[["Config", "Link", People, bool], ClusterLinkReader]
    writer: Callable[["Config", ClusterLinkReader, Path], "ClusterLinkWriter"]
    overrides: Callable[[Sequence[str]], Mapping[str, str]]
    asked: Callable[[Plan], str]
    code: Callable[[Prepared], ExitCode] = lambda prepared: (
        ExitCode.REFUSED if prepared.against else ExitCode.DONE
    )
