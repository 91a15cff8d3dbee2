"""What a drill came to: every page, table and document is made from this."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from drctl.drill.history import Past, Verdict
from drctl.drill.inventory import Compared
from drctl.drill.judging import Limits, worse
from drctl.drill.measuring import Measures
from drctl.drill.names import Scratch
from drctl.drill.planning import LeftOut
from drctl.model.errors import ExitCode


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step of the engine's part; `seconds` is None where it was not begun."""

    id: str
    title: str
    status: str
    seconds: float | None
    detail: str


@dataclass(frozen=True, slots=True)
class Result:
    """One drill.

    Attributes:
        inject: the fault; empty where there was none.
        seconds: of all of it, cleaning up included.
        broke_off: why it ended early; empty where the engine went through all steps.
        unanswered: whether that was an answer that did not come.
        measures: None where it did not come so far.
        steps: of the engine's plan; empty where it did not begin.
        deleted: what it had made and is gone.
        left: what is still there, or may be.
        compared: two looks at everything else; None where the second was not possible.
        not_compared: why it was not.
        journal: of the engine's part; empty where it did not begin.
    """

    scratch: Scratch
    link: str
    source: str
    target: str
    target_topic: str
    mode: str
    inject: str
    began: datetime
    seconds: float
    limits: Limits
    broke_off: str = ""
    unanswered: bool = False
    interrupted: bool = False
    measures: Measures | None = None
    steps: tuple[StepTime, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    deleted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    compared: Compared | None = None
    not_compared: str = ""
    journal: str = ""

    @property
    def evidence_missing(self) -> bool:
        """Whether something that it was to show is not known."""
        return self.unanswered or self.compared is None or bool(self.compared.unseen)

    @property
    def verdict(self) -> Verdict:
        """How well it went."""
        if self.evidence_missing:
            return Verdict.UNKNOWN
        if self.broke_off or self.measures is None:
            return Verdict.FAILED
        return Verdict.WORSE if self.reasons else Verdict.PASSED

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it did not pass, each in words; empty where it did."""
        return tuple(self._reasons())

    @property
    def exit_code(self) -> ExitCode:
        """What the process exits with: what has to be acted on first comes first.

        4 where something is left, 130 where somebody stopped it, 5 where evidence is missing
        (whatever else was found), 1 where it did not pass.
        """
        if self.left:
            return ExitCode.STOPPED
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if self.evidence_missing:
            return ExitCode.UNKNOWN
        return ExitCode.DONE if self.verdict is Verdict.PASSED else ExitCode.FOUND

    def past(self) -> Past:
        """Its line in the history."""
        outage = self.measures.outage if self.measures else None
        loss = self.measures.loss if self.measures else None
        translation = self.measures.translation if self.measures else None
        return Past(
            self.scratch.drill,
            self.link,
            self.began,
            self.verdict,
            self.mode,
            self.inject,
            outage.seconds if outage else None,
            outage.write_s if outage else None,
            outage.read_s if outage else None,
            loss.acknowledged if loss else None,
            loss.missing if loss else None,
            loss.seconds if loss else None,
            translation.reread if translation else None,
            translation.skipped if translation else None,
            self.reasons,
            tuple((step.id, step.seconds) for step in self.steps if step.seconds is not None),
        )

    def _reasons(self) -> Iterator[str]:
        if self.broke_off:
            yield self.broke_off
        elif self.measures is not None:
            yield from worse(self.measures, self.limits)
        yield from (f"still there: {what}" for what in self.left)
        if self.compared is None:
            why = f": {self.not_compared}" if self.not_compared else ""
            yield f"whether all else is as it was is not known{why}"
            return
        yield from (f"not as it was: {what}" for what in self.compared.differences)
        yield from (f"not looked at: {what}" for what in self.compared.unseen)
