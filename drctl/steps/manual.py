"""Manual steps: an operator does them and confirms; the answer is in the journal."""

from dataclasses import dataclass, replace
from typing import Any

from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader
from drctl.engine.source_fence import FenceFacts
from drctl.model.typed_json import Number

PROOF = "the operator confirms it"


@dataclass(frozen=True, kw_only=True)
class ManualSettings:
    """What a person is asked.

    Attributes:
        question: its id; `--answer` takes it.
        undo: what rolls it back; empty, or None, where nothing does.
        expect: how it is known to be done; empty for the person's word.
    """

    question: str
    text: str
    undo: str | None = None
    expect: str = ""


@dataclass(frozen=True, kw_only=True)
class ManualIntent:
    """The same, each text on one line."""

    question: str
    text: str
    undo: str = ""


@dataclass(frozen=True, slots=True)
class SaidFacts:
    """What the person said: yes or no."""

    answer: str


@dataclass(frozen=True, slots=True)
class Manual(Polling[ManualSettings, ManualIntent, SaidFacts]):
    """Asks the operator; drctl itself changes nothing and rolls nothing back."""

    name: str
    traits: Trait

    def describe(self, settings: ManualSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(one_line(settings.text), settings.expect or PROOF)

    def check(self, settings: ManualSettings, facts: Facts, reader: LinkReader) -> ManualIntent:
        """Use the settings as the intent."""
        return ManualIntent(**asked(settings))

    def verify(self, intent: ManualIntent, reader: LinkReader) -> Readback[SaidFacts]:
        """What the person says."""
        return answered(intent.question, intent.text, reader)


def asked(settings: ManualSettings) -> dict[str, Any]:
    """The fields of a `ManualIntent`."""
    text, undo = one_line(settings.text), one_line(settings.undo or "")
    return {"question": settings.question, "text": text, "undo": undo}


def answered(question: str, text: str, reader: LinkReader) -> Readback[SaidFacts]:
    """What a person says; no answer counts as no."""
    answer = reader.answer(question, text)
    if answer is None:
        words = f"not answered: {text}: answer in a terminal or pass --answer {question}=yes"
        return Readback(State.FAILED, words)
    if not answer:
        return Readback(State.FAILED, f"answered no: {text}", SaidFacts("no"))
    return Readback(State.DONE, f"confirmed by the operator: {text}", SaidFacts("yes"))


def one_line(text: str) -> str:
    """A text of several lines as one, for titles and questions."""
    return " ".join(text.split())


MANUAL = Manual("manual", Trait.NONE)
MANUAL_CHECK = Manual("manual-check", Trait.RUNS_PRECHECKS)


BACK = ".undo"
"""After the id of a step: the question whether it was rolled back."""


@dataclass(frozen=True, slots=True)
class ManualChange(Manual):
    """Asks whether a change is done and, in a rollback, whether it was undone."""

    def describe(self, settings: ManualSettings) -> Description:
        """Describe the step for plans and reports."""
        return changing(settings)

    def verify_undo(self, intent: ManualIntent, reader: LinkReader) -> Readback[SaidFacts]:
        """What the person says; where nothing undoes it, that it stays."""
        return verify_undo(intent, reader)


def changing(settings: ManualSettings) -> Description:
    """A change in words."""
    rollback = one_line(settings.undo or "")
    return Description(one_line(settings.text), settings.expect or PROOF, rollback)


def verify_undo(intent: ManualIntent, reader: LinkReader) -> Readback[Any]:
    """Whether a person says that a change was rolled back."""
    if not intent.undo:
        return Readback(State.FAILED, f"cannot be rolled back: {intent.text}")
    return answered(intent.question + BACK, intent.undo, reader)


MANUAL_CHANGE = ManualChange("manual-change", Trait.CHANGES)
MANUAL_STOP_REPLICATION = ManualChange(
    "manual-stop-replication", Trait.CHANGES | Trait.STOPS_REPLICATION
)
MANUAL_RECONCILE = ManualChange("manual-reconcile", Trait.CHANGES | Trait.RECONCILES)


_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class FenceSettings:
    """What every fence of producers needs to know.

    Attributes:
        settle_seconds: for so long the ends of logs must not move.
        reverse: connectors that copy to the cluster, where it is the one that is back.
        rebuild: whether topics may be missing for a while: during a rebuild.
    """

    cluster: str
    settle_seconds: Number
    reverse: tuple[str, ...] = ()
    rebuild: bool = False


@dataclass(frozen=True, kw_only=True)
class FenceIntent:
    """The same, and the topics that must not grow."""

    cluster: str
    topics: tuple[str, ...]
    settle_seconds: Number
    reverse: tuple[str, ...] = ()
    rebuild: bool = False

    @property
    def changes(self) -> bool:
        """Whether there is anything to do; yes, where a person does it."""
        return True


def watched(settings: FenceSettings, reader: LinkReader) -> dict[str, Any]:
    """The fields of a `FenceIntent`."""
    return {
        "cluster": settings.cluster,
        "topics": tuple(reader.topics()),
        "settle_seconds": settings.settle_seconds,
        "reverse": settings.reverse,
        "rebuild": settings.rebuild,
    }


def still(
    intent: FenceIntent, reader: LinkReader, held: Readback[Any], answer: str = ""
) -> Readback[FenceFacts]:
    """The proof of the fence itself, and that the end offsets do not move."""
    if held.state is not State.DONE:
        return Readback(held.state, held.words, FenceFacts(answer=answer), held.items)
    settle_s = intent.settle_seconds
    # Brokers are asked for no rule: what fences here is not known to them.
    found = reader.fence(intent.cluster, settle_s).prove((), intent.topics).no_writes
    ends = {str(place): end for place, end in sorted(found.ends.items())}
    facts = FenceFacts(ends, answer=answer)
    if not found.proven:
        return Readback(State.WAITING, "; ".join(found.unproven[:_SHOWN]), facts, found.unproven)
    words = (
        f"{held.words}; the end offsets of {len(ends)} partitions were stable for {settle_s:g} s"
    )
    return Readback(State.DONE, words, facts)


@dataclass(frozen=True, kw_only=True)
class ManualFenceSettings(FenceSettings, ManualSettings):
    """What a person is asked, and what must not grow."""


@dataclass(frozen=True, kw_only=True)
class ManualFenceIntent(FenceIntent, ManualIntent):
    """The same."""


class ManualFence(Polling[ManualFenceSettings, ManualFenceIntent, FenceFacts]):
    """The operator's confirmation plus stable end offsets: neither alone proves a fence."""

    name = "manual-fence"
    traits = Trait.CHANGES | Trait.FENCES_WRITES

    def describe(self, settings: ManualFenceSettings) -> Description:
        """Describe the step for plans and reports."""
        return replace(changing(settings), proof=f"{PROOF}, and end offsets are stable")

    def check(
        self, settings: ManualFenceSettings, facts: Facts, reader: LinkReader
    ) -> ManualFenceIntent:
        """Which topics must not grow."""
        return ManualFenceIntent(**asked(settings), **watched(settings, reader))

    def verify(self, intent: ManualFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """What the person says, and what grows."""
        said = answered(intent.question, intent.text, reader)
        return still(intent, reader, said, said.facts.answer if said.facts else "")

    def verify_undo(self, intent: ManualFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """What the person says; where nothing undoes it, that it stays."""
        return verify_undo(intent, reader)


MANUAL_FENCE = ManualFence()
