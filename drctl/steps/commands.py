"""A user-supplied command: an argv list, no shell, a deadline, an environment of its own.

It may not be safe to run twice, so it is never run again before its effect is checked. A `verify`
command checks it from any machine. Else the exit code is the proof, and only the process that ran
the command knows it: a run that resumes after a crash asks a person what became of it.
"""

import shlex
import uuid
from dataclasses import dataclass

from drctl.engine.kind import Description, Facts, Seen, State, Trait
from drctl.engine.ports import CommandEnded, LinkReader, LinkWriter
from drctl.model.errors import Refused
from drctl.model.plan import Json
from drctl.steps.manual import BACK, still, watched


@dataclass(frozen=True, slots=True)
class Command:
    """Runs it; rolls it back with another command, where one is given."""

    name: str
    traits: Trait

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        argv, verify, undo = (shlex.join(settings[key]) for key in ("argv", "verify", "undo"))
        proof = f"`{verify}` ends with 0" if verify else "it ends with 0"
        return Description(f"run `{argv}`", proof, f"run `{undo}`" if undo else "")

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Whether it is so already.

        Raises:
            Refused: what tells cannot be started.
            Unreachable: what tells took too long.
        """
        intent = {
            "identity": uuid.uuid4().hex,
            "question": settings["question"],
            "argv": list(settings["argv"]),
            "verify": list(settings["verify"]),
            "undo": list(settings["undo"]),
            "env": dict(settings["env"]),
            "timeout_seconds": settings["timeout_seconds"],
        }
        return {**intent, "already": bool(intent["verify"]) and _holds(intent, reader)}

    def apply(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Run it, unless it is so already."""
        return () if intent["already"] else _run(intent, "argv", writer)

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What `verify` says; else how it ended; else what a person says."""
        ended = reader.ended(_identity(intent, "argv"))
        if intent["verify"]:
            if _holds(intent, reader):
                return Seen(State.DONE, f"{_told(intent, 'verify')} says that it is done")
            if ended is None or ended.code == 0:
                return Seen(State.WAITING, f"{_told(intent, 'verify')} says that it is not done")
        if ended is not None:
            return _judged(intent, "argv", ended)
        return _asked(intent["question"], f"did {_told(intent, 'argv')} do its work?", reader)

    def undo(self, intent: Json, writer: LinkWriter) -> tuple[str, ...]:
        """Run the command that rolls it back; nothing where it was so before."""
        if intent["already"] or not intent["undo"]:
            return ()
        return _run(intent, "undo", writer)

    def undone(self, intent: Json, reader: LinkReader) -> Seen:
        """Whether it was rolled back."""
        ran, back = (reader.ended(_identity(intent, what)) for what in ("argv", "undo"))
        if intent["already"]:
            return Seen(State.DONE, "it was so before")
        if intent["verify"] and not _holds(intent, reader):
            return Seen(State.DONE, f"{_told(intent, 'verify')} says that it is not done")
        if ran is not None and ran.code is None:
            return Seen(State.DONE, f"{_told(intent, 'argv')} was never started")
        if back is not None and (back.code != 0 or not intent["verify"]):
            return _judged(intent, "undo", back)
        if intent["verify"] and intent["undo"]:
            return Seen(State.WAITING, f"{_told(intent, 'verify')} says that it is still done")
        seen = _asked(_back(intent), f"is what {_told(intent, 'argv')} did taken back?", reader)
        if seen.state is State.UNKNOWN and not intent["undo"]:
            words = f"no way back is given; take it back, then --answer {_back(intent)}=yes"
            return Seen(State.FAILED, words)
        return seen


def _run(intent: Json, what: str, writer: LinkWriter) -> tuple[str, ...]:
    identity = _identity(intent, what)
    ended = writer.run(identity, intent[what], intent["env"], intent["timeout_seconds"])
    return () if ended.code == 0 else (_judged(intent, what, ended).words,)


def _holds(intent: Json, reader: LinkReader) -> bool:
    """Raises Refused where the command that tells cannot be started."""
    ended = reader.probe(intent["verify"], intent["env"], intent["timeout_seconds"])
    if ended.code is None:
        raise Refused(_judged(intent, "verify", ended).words, "run it by hand")
    return ended.code == 0


def _judged(intent: Json, what: str, ended: CommandEnded) -> Seen:
    last = ": ".join(["", *ended.output.strip().splitlines()[-1:]])
    words = f"{_told(intent, what)} {_how(ended.code)}{last}"
    return Seen(State.DONE if ended.code == 0 else State.FAILED, words)


def _how(code: int | None) -> str:
    if code is None:
        return "could not be started"
    return f"was ended by signal {-code}" if code < 0 else f"ended with {code}"


def _asked(question: str, text: str, reader: LinkReader) -> Seen:
    answer = reader.answer(question, text)
    if answer is None:
        words = f"nobody knows: {text} Look, then --answer {question}=yes, or =no"
        return Seen(State.UNKNOWN, words)
    state = State.DONE if answer else State.WAITING
    return Seen(state, f"a person says {'yes' if answer else 'no'}: {text}")


def _told(intent: Json, what: str) -> str:
    return f"`{shlex.join(intent[what])}`"


def _identity(intent: Json, what: str) -> str:
    return f"{intent['identity']}-{what}"


def _back(intent: Json) -> str:
    return f"{intent['question']}{BACK}"


COMMAND = Command("command", Trait.CHANGES)
COMMAND_STOP_REPLICATION = Command(
    "command-stop-replication", Trait.CHANGES | Trait.STOPS_REPLICATION
)


@dataclass(frozen=True, slots=True)
class CommandFence(Command):
    """The command's own proof, and end offsets that do not move: neither alone is a fence."""

    def describe(self, settings: Json) -> Description:
        """The step in words."""
        told = Command.describe(self, settings)
        title = f"fence {settings['cluster']}: {told.title}"
        return Description(title, f"{told.proof}, and end offsets do not move", told.way_back)

    def check(self, settings: Json, facts: Facts, reader: LinkReader) -> Json:
        """Whether it is so already, and which topics must not grow."""
        return {**Command.check(self, settings, facts, reader), **watched(settings, reader)}

    def verify(self, intent: Json, reader: LinkReader) -> Seen:
        """What the command says, and what grows."""
        return still(intent, reader, Command.verify(self, intent, reader))


COMMAND_FENCE = CommandFence("command-fence", Trait.CHANGES | Trait.FENCES_WRITES)
