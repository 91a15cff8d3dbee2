"""A user-supplied command: an argv list without a shell, with a timeout and its own environment.

It may not be safe to run twice, so it is never run again before its effect is checked. A `verify`
command checks it from any machine. Else the exit code is the proof, and only the process that ran
the command knows it: a run that resumes after a crash asks a person what became of it.
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
from drctl.steps.manual import BACK, FenceIntent, FenceSettings, still, watched


@dataclass(frozen=True, kw_only=True)
class CommandSettings:
    """What is run.

    Attributes:
        question: what a person is asked, by its id, where nothing else tells how it ended.
        verify: tells whether it is done; empty where its own exit code has to.
        undo: rolls it back; empty where nothing does.
        env: all that each of them gets.
    """

    question: str
    argv: tuple[str, ...]
    verify: tuple[str, ...]
    undo: tuple[str, ...]
    env: Mapping[str, str]
    timeout_seconds: Number


@dataclass(frozen=True, kw_only=True)
class CommandIntent(CommandSettings):
    """The same.

    Attributes:
        identity: by which the process that ran it knows it again.
        already: whether it is so already.
    """

    identity: str
    already: bool


C = TypeVar("C", bound=CommandSettings)
D = TypeVar("D", bound=CommandIntent)
F = TypeVar("F", covariant=True)


class _Runs(StepKind[C, D, F]):
    """Runs it; rolls it back with another command, where one is given."""

    def describe(self, settings: C) -> Description:
        """The step in words."""
        argv, verify, undo = map(shlex.join, (settings.argv, settings.verify, settings.undo))
        proof = f"`{verify}` ends with 0" if verify else "it ends with 0"
        return Description(f"run `{argv}`", proof, f"run `{undo}`" if undo else "")

    def apply(self, intent: D, writer: LinkWriter) -> tuple[str, ...]:
        """Run it, unless it is so already."""
        return () if intent.already else _run(intent, "argv", intent.argv, writer)

    def undo(self, intent: D, writer: LinkWriter) -> tuple[str, ...]:
        """Run the command that rolls it back; nothing where it was so before."""
        if intent.already or not intent.undo:
            return ()
        return _run(intent, "undo", intent.undo, writer)

    def verify_undo(self, intent: D, reader: LinkReader) -> Readback[F]:
        """Whether it was rolled back."""
        ran, back = (
            reader.command_result(f"{intent.identity}-{what}") for what in ("argv", "undo")
        )
        if intent.already:
            return Readback(State.DONE, "it was already done before")
        if intent.verify and not _holds(intent, reader):
            return Readback(State.DONE, f"{_told(intent.verify)} reports that it is not done")
        if ran is not None and ran.code is None:
            return Readback(State.DONE, f"{_told(intent.argv)} was never started")
        if back is not None and (back.code != 0 or not intent.verify):
            return _judged(intent.undo, back)
        if intent.verify and intent.undo:
            return Readback(
                State.WAITING, f"{_told(intent.verify)} reports that it is still in effect"
            )
        question = f"{intent.question}{BACK}"
        seen = _asked(question, f"was the effect of {_told(intent.argv)} rolled back?", reader)
        if seen.state is State.UNKNOWN and not intent.undo:
            words = (
                f"no undo command is configured: roll it back, then pass --answer {question}=yes"
            )
            return Readback(State.FAILED, words)
        return seen


def _begun(settings: CommandSettings, reader: LinkReader) -> dict[str, Any]:
    """The fields of a `CommandIntent`: whether it is so already.

    Raises:
        Refused: what tells cannot be started.
        Unreachable: what tells took too long.
    """
    known = {name: getattr(settings, name) for name in CommandSettings.__dataclass_fields__}
    already = bool(settings.verify) and _holds(settings, reader)
    return {**known, "identity": uuid.uuid4().hex, "already": already}


def _ended(intent: CommandIntent, reader: LinkReader) -> Readback[Any]:
    """What `verify` says; else how it ended; else what a person says."""
    ended = reader.command_result(f"{intent.identity}-argv")
    if intent.verify:
        if _holds(intent, reader):
            return Readback(State.DONE, f"{_told(intent.verify)} reports that it is done")
        if ended is None or ended.code == 0:
            return Readback(State.WAITING, f"{_told(intent.verify)} reports that it is not done")
    if ended is not None:
        return _judged(intent.argv, ended)
    return _asked(intent.question, f"did {_told(intent.argv)} succeed?", reader)


@dataclass(frozen=True, slots=True)
class Command(_Runs[CommandSettings, CommandIntent, None]):
    """Its own proof is enough."""

    name: str
    traits: Trait

    def check(self, settings: CommandSettings, facts: Facts, reader: LinkReader) -> CommandIntent:
        """Whether it is so already."""
        return CommandIntent(**_begun(settings, reader))

    def verify(self, intent: CommandIntent, reader: LinkReader) -> Readback[None]:
        """What `verify` says; else how it ended; else what a person says."""
        return _ended(intent, reader)


def _run(
    intent: CommandIntent, what: str, argv: tuple[str, ...], writer: LinkWriter
) -> tuple[str, ...]:
    identity = f"{intent.identity}-{what}"
    ended = writer.run(identity, argv, intent.env, intent.timeout_seconds)
    return () if ended.code == 0 else (_judged(argv, ended).words,)


def _holds(given: CommandSettings, reader: LinkReader) -> bool:
    return ended_looking(given.verify, given.env, given.timeout_seconds, reader).code == 0


def ended_looking(
    argv: tuple[str, ...], env: Mapping[str, str], timeout_s: float, reader: LinkReader
) -> CommandResult:
    """How a command ended that tells by its exit code whether something is so.

    Raises:
        Refused: it cannot be started.
        Unreachable: it took too long, and was ended.
    """
    ended = reader.run_read_only(argv, env, timeout_s)
    if ended.code is None:
        raise Refused(_judged(argv, ended).words, "run it by hand")
    return ended


def _judged(argv: tuple[str, ...], ended: CommandResult) -> Readback[Any]:
    last = ": ".join(["", *ended.output.strip().splitlines()[-1:]])
    words = f"{_told(argv)} {_how(ended.code)}{last}"
    return Readback(State.DONE if ended.code == 0 else State.FAILED, words)


def _how(code: int | None) -> str:
    if code is None:
        return "could not be started"
    return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def _asked(question: str, text: str, reader: LinkReader) -> Readback[Any]:
    answer = reader.answer(question, text)
    if answer is None:
        words = f"unknown: {text} Check, then pass --answer {question}=yes or =no"
        return Readback(State.UNKNOWN, words)
    state = State.DONE if answer else State.WAITING
    return Readback(state, f"answered {'yes' if answer else 'no'}: {text}")


def _told(argv: tuple[str, ...]) -> str:
    return f"`{shlex.join(argv)}`"


COMMAND = Command("command", Trait.CHANGES)
COMMAND_STOP_REPLICATION = Command(
    "command-stop-replication", Trait.CHANGES | Trait.STOPS_REPLICATION
)


@dataclass(frozen=True, kw_only=True)
class CommandFenceSettings(FenceSettings, CommandSettings):
    """What is run, and what must not grow."""


@dataclass(frozen=True, kw_only=True)
class CommandFenceIntent(FenceIntent, CommandIntent):
    """The same."""

    @property
    def changes(self) -> bool:
        """Whether it was not so already."""
        return not self.already


class CommandFence(_Runs[CommandFenceSettings, CommandFenceIntent, FenceFacts]):
    """The command's own result plus stable end offsets: neither alone proves a fence."""

    name = "command-fence"
    traits = Trait.CHANGES | Trait.FENCES_WRITES

    def describe(self, settings: CommandFenceSettings) -> Description:
        """The step in words."""
        told = super().describe(settings)
        title = f"fence {settings.cluster}: {told.title}"
        return Description(title, f"{told.proof}, and end offsets are stable", told.rollback)

    def check(
        self, settings: CommandFenceSettings, facts: Facts, reader: LinkReader
    ) -> CommandFenceIntent:
        """Whether it is so already, and which topics must not grow."""
        return CommandFenceIntent(**_begun(settings, reader), **watched(settings, reader))

    def verify(self, intent: CommandFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """What the command says, and what grows."""
        return still(intent, reader, _ended(intent, reader))


COMMAND_FENCE = CommandFence()
