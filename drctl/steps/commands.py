"""A user-supplied command: an argv list without a shell, with a timeout and its own environment.

A command may not be safe to run twice, so it is never repeated before its effect is checked. A
`verify` command checks the effect from any machine. Without one, the exit code is the proof; only
the process that ran the command knows it, so a run resumed after a crash asks the operator.
"""

import shlex
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from drctl.engine.kind import Description, Facts, Readback, State, StepKind, Trait
from drctl.engine.ports import CommandResult, LinkReader, LinkWriter
from drctl.engine.source_fence import FenceFacts
from drctl.model.errors import Refused
from drctl.model.typed_json import Number
from drctl.steps.manual import BACK, FenceIntent, FenceSettings, watched, with_stable_ends


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """The commands of a step.

    Attributes:
        question: the id under which the operator is asked if the result is unknown.
        verify: exits with 0 if the effect is there; empty if the exit code of `argv` is the proof.
        undo: rolls the effect back; empty if nothing does.
        env: the complete environment of each command.
    """

    question: str
    argv: tuple[str, ...]
    verify: tuple[str, ...]
    undo: tuple[str, ...]
    env: Mapping[str, str]
    timeout_seconds: Number


@dataclass(frozen=True, kw_only=True)
class CommandIntent(CommandSettings):
    """The commands, and the state before.

    Attributes:
        identity: the id under which the process that ran a command keeps its result.
        already: whether the effect was there before.
    """

    identity: str
    already: bool


C = TypeVar("C", bound=CommandSettings)
D = TypeVar("D", bound=CommandIntent)
F = TypeVar("F", covariant=True)


class _Runs(StepKind[C, D, F]):
    """Runs a command, and rolls it back with its `undo` command, if there is one."""

    def describe(self, settings: C) -> Description:
        """Describe the step for plans and reports."""
        argv, verify, undo = map(shlex.join, (settings.argv, settings.verify, settings.undo))
        proof = f"`{verify}` exits with 0" if verify else "it exits with 0"
        return Description(f"run `{argv}`", proof, f"run `{undo}`" if undo else "")

    def apply(self, intent: D, writer: LinkWriter) -> tuple[str, ...]:
        """Run the command, unless its effect is already there."""
        return () if intent.already else _run(intent, "argv", intent.argv, writer)

    def undo(self, intent: D, writer: LinkWriter) -> tuple[str, ...]:
        """Run the `undo` command, unless the effect was there before."""
        if intent.already or not intent.undo:
            return ()
        return _run(intent, "undo", intent.undo, writer)

    def verify_undo(self, intent: D, reader: LinkReader) -> Readback[F]:
        """Verify that the effect was rolled back."""
        ran, back = (
            reader.command_result(f"{intent.identity}-{what}") for what in ("argv", "undo")
        )
        if intent.already:
            return Readback(State.DONE, "it was in effect before this run, and is not rolled back")
        if intent.verify and not _is_done(intent, reader):
            return Readback(State.DONE, f"{_quoted(intent.verify)} reports that it is not done")
        if ran is not None and ran.code is None:
            return Readback(State.DONE, f"{_quoted(intent.argv)} was never started")
        if back is not None and (back.code != 0 or not intent.verify):
            return _judged(intent.undo, back)
        if intent.verify and intent.undo:
            return Readback(
                State.WAITING, f"{_quoted(intent.verify)} reports that it is still in effect"
            )
        question = f"{intent.question}{BACK}"
        seen = _asked(question, f"was the effect of {_quoted(intent.argv)} rolled back?", reader)
        if seen.state is State.UNKNOWN and not intent.undo:
            message = (
                "no undo command is configured: roll the effect back yourself, then pass"
                f" --answer {question}=yes"
            )
            return Readback(State.FAILED, message)
        return seen


def _begun(settings: CommandSettings, reader: LinkReader) -> dict[str, Any]:
    """The fields of a `CommandIntent`.

    Raises:
        Refused: the `verify` command cannot be started.
        Unreachable: the `verify` command timed out.
    """
    known = {name: getattr(settings, name) for name in CommandSettings.__dataclass_fields__}
    already = bool(settings.verify) and _is_done(settings, reader)
    return {**known, "identity": uuid.uuid4().hex, "already": already}


def _ended(intent: CommandIntent, reader: LinkReader) -> Readback[Any]:
    """The result of `verify`, else the exit code, else the operator's answer."""
    ended = reader.command_result(f"{intent.identity}-argv")
    if intent.verify:
        if _is_done(intent, reader):
            return Readback(State.DONE, f"{_quoted(intent.verify)} reports that it is done")
        if ended is None or ended.code == 0:
            return Readback(State.WAITING, f"{_quoted(intent.verify)} reports that it is not done")
    if ended is not None:
        return _judged(intent.argv, ended)
    return _asked(intent.question, f"did {_quoted(intent.argv)} succeed?", reader)


@dataclass(frozen=True, slots=True)
class Command(_Runs[CommandSettings, CommandIntent, None]):
    """A command whose result is the only proof."""

    name: str
    traits: Trait

    def check(self, settings: CommandSettings, facts: Facts, reader: LinkReader) -> CommandIntent:
        """Check whether the effect is already there."""
        return CommandIntent(**_begun(settings, reader))

    def verify(self, intent: CommandIntent, reader: LinkReader) -> Readback[None]:
        """The result of `verify`, else the exit code, else the operator's answer."""
        return _ended(intent, reader)


def _run(
    intent: CommandIntent, what: str, argv: tuple[str, ...], writer: LinkWriter
) -> tuple[str, ...]:
    identity = f"{intent.identity}-{what}"
    ended = writer.run(identity, argv, intent.env, intent.timeout_seconds)
    return () if ended.code == 0 else (_judged(argv, ended).message,)


def _is_done(given: CommandSettings, reader: LinkReader) -> bool:
    return run_probe(given.verify, given.env, given.timeout_seconds, reader).code == 0


def run_probe(
    argv: tuple[str, ...], env: Mapping[str, str], timeout_s: float, reader: LinkReader
) -> CommandResult:
    """Run a command that only checks something, and return its exit code and output.

    Raises:
        Refused: it cannot be started.
        Unreachable: it timed out and was killed.
    """
    ended = reader.run_read_only(argv, env, timeout_s)
    if ended.code is None:
        raise Refused(_judged(argv, ended).message, "run it by hand")
    return ended


def _judged(argv: tuple[str, ...], ended: CommandResult) -> Readback[Any]:
    last = ": ".join(["", *ended.output.strip().splitlines()[-1:]])
    message = f"{_quoted(argv)} {_how(ended.code)}{last}"
    return Readback(State.DONE if ended.code == 0 else State.FAILED, message)


def _how(code: int | None) -> str:
    if code is None:
        return "could not be started"
    return f"was killed by signal {-code}" if code < 0 else f"exited with {code}"


def _asked(question: str, text: str, reader: LinkReader) -> Readback[Any]:
    answer = reader.answer(question, text)
    if answer is None:
        message = f"unknown: {text} Check, then pass --answer {question}=yes or =no"
        return Readback(State.UNKNOWN, message)
    state = State.DONE if answer else State.WAITING
    return Readback(state, f"answered {'yes' if answer else 'no'}: {text}")


def _quoted(argv: tuple[str, ...]) -> str:
    return f"`{shlex.join(argv)}`"


COMMAND = Command("command", Trait.CHANGES)
COMMAND_STOP_REPLICATION = Command(
    "command-stop-replication", Trait.CHANGES | Trait.STOPS_REPLICATION
)


@dataclass(frozen=True, kw_only=True)
class CommandFenceSettings(FenceSettings, CommandSettings):
    """The commands of a fence, and the cluster whose end offsets must be stable."""


@dataclass(frozen=True, kw_only=True)
class CommandFenceIntent(FenceIntent, CommandIntent):
    """The commands of a fence, and the state before."""

    @property
    def changes(self) -> bool:
        """Whether the fence was not already there."""
        return not self.already


class CommandFence(_Runs[CommandFenceSettings, CommandFenceIntent, FenceFacts]):
    """The command's own result plus stable end offsets: neither alone proves a fence."""

    name = "command-fence"
    traits = Trait.CHANGES | Trait.FENCES_WRITES

    def describe(self, settings: CommandFenceSettings) -> Description:
        """Describe the step for plans and reports."""
        run = super().describe(settings)
        title = f"fence {settings.cluster}: {run.title}"
        return Description(title, f"{run.proof}, and end offsets are stable", run.rollback)

    def check(
        self, settings: CommandFenceSettings, facts: Facts, reader: LinkReader
    ) -> CommandFenceIntent:
        """Check whether the fence is already there, and which topics must have stable ends."""
        return CommandFenceIntent(**_begun(settings, reader), **watched(settings, reader))

    def verify(self, intent: CommandFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """Verify the command's result, and that end offsets are stable."""
        return with_stable_ends(intent, reader, _ended(intent, reader))


COMMAND_FENCE = CommandFence()
