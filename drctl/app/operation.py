"""A prepared plan, and how plans of its kind are run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app.link_reader import ClusterLinkReader
from drctl.app.notices import Prompts
from drctl.model.errors import ExitCode
from drctl.model.plan import Plan

if TYPE_CHECKING:
    from drctl.app.link_writer import ClusterLinkWriter
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.connectors.moving import MovedConnector
    from drctl.model.finding import Finding
    from drctl.model.loss import Loss
    from drctl.steps.commit_offsets import Foreseen


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan with its findings and blockers.

    Attributes:
        broken: the ordering rules that it breaks.
        failing: the prechecks that block it.
        execute: the command line that executes it.
        loss: the estimated loss; None if the plan loses nothing, or it is not estimated yet.
        groups: where groups would resume; None if the source is not lost, or this is unknown.
        source_connectors: what source connectors would do.
    """

    plan: Plan
    findings: "Sequence[Finding]"
    broken: tuple[str, ...]
    failing: "Sequence[Finding]"
    execute: str
    loss: "Loss | None" = None
    groups: "Foreseen | None" = None
    source_connectors: "tuple[MovedConnector, ...]" = ()

    @property
    def blockers(self) -> tuple[str, ...]:
        """All blockers, in words."""
        from drctl.checks.causes import in_words

        return (*self.broken, *in_words(self.failing))

    @property
    def remedies(self) -> tuple[str, ...]:
        """The remedies of failing prechecks, each once."""
        return tuple(dict.fromkeys(each.remedy for each in self.failing if each.remedy))


@dataclass(frozen=True, slots=True)
class Operation:
    """How plans of one kind are run.

    Attributes:
        reader: opens the reader; the last argument is whether the source is probably down.
        writer: opens the writer; the last argument is the folder of the run.
        overrides: parses `PRECHECK=REASON`.
        asked: the mode of the plan's prechecks; empty if it has none.
        code: the exit code of a command that only shows the plan.
    """

    reader: Callable[["Config", "Link", Prompts, bool], ClusterLinkReader]
    writer: Callable[["Config", ClusterLinkReader, Path], "ClusterLinkWriter"]
    overrides: Callable[[Sequence[str]], Mapping[str, str]]
    asked: Callable[[Plan], str]
    code: Callable[[Prepared], ExitCode] = lambda prepared: (
        ExitCode.REFUSED if prepared.blockers else ExitCode.DONE
    )
