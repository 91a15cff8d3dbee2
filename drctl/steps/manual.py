"""Manual steps: the operator does them and confirms; the journal records the answer."""

from dataclasses import dataclass, replace
from typing import Any

from drctl.engine.kind import Description, Facts, Polling, Readback, State, Trait
from drctl.engine.ports import LinkReader
from drctl.engine.source_fence import FenceFacts
from drctl.model.text import plural
from drctl.model.typed_json import Number

PROOF = "the operator confirms it"


@dataclass(frozen=True, kw_only=True)
class ManualSettings:
    """What the operator is asked.

    Attributes:
        question: the id of the question, for `--answer`.
        undo: how to roll the step back; empty or None if that is impossible.
        expect: how to recognize that it is done; empty if the operator's word is enough.
    """

    question: str
    text: str
    undo: str | None = None
    expect: str = ""


@dataclass(frozen=True, kw_only=True)
class ManualIntent:
    """The settings of a manual step, each text on one line."""

    question: str
    text: str
    undo: str = ""


@dataclass(frozen=True, slots=True)
class ConfirmationFacts:
    """The operator's answer: yes or no."""

    answer: str


@dataclass(frozen=True, slots=True)
class Manual(Polling[ManualSettings, ManualIntent, ConfirmationFacts]):
    """Asks the operator; drctl itself changes nothing and rolls nothing back."""

    name: str
    traits: Trait

    def describe(self, settings: ManualSettings) -> Description:
        """Describe the step for plans and reports."""
        return Description(one_line(settings.text), settings.expect or PROOF)

    def check(self, settings: ManualSettings, facts: Facts, reader: LinkReader) -> ManualIntent:
        """Use the settings as the intent."""
        return ManualIntent(**asked(settings))

    def verify(self, intent: ManualIntent, reader: LinkReader) -> Readback[ConfirmationFacts]:
        """Ask the operator."""
        return answered(intent.question, intent.text, reader)


def asked(settings: ManualSettings) -> dict[str, Any]:
    """The fields of a `ManualIntent`."""
    text, undo = one_line(settings.text), one_line(settings.undo or "")
    return {"question": settings.question, "text": text, "undo": undo}


def answered(question: str, text: str, reader: LinkReader) -> Readback[ConfirmationFacts]:
    """Ask the operator; no answer counts as no."""
    answer = reader.answer(question, text)
    if answer is None:
        message = f"not answered: {text}: answer in a terminal or pass --answer {question}=yes"
        return Readback(State.FAILED, message)
    if not answer:
        return Readback(State.FAILED, f"answered no: {text}", ConfirmationFacts("no"))
    return Readback(State.DONE, f"confirmed by the operator: {text}", ConfirmationFacts("yes"))


def one_line(text: str) -> str:
    """Join the lines of a text, for titles and questions."""
    return " ".join(text.split())


MANUAL = Manual("manual", Trait.NONE)
MANUAL_CHECK = Manual("manual-check", Trait.RUNS_PRECHECKS)


BACK = ".undo"
"""Suffix of the id of the question that asks whether a step was rolled back."""


@dataclass(frozen=True, slots=True)
class ManualChange(Manual):
    """Asks whether a change is done and, in a rollback, whether it was undone."""

    def describe(self, settings: ManualSettings) -> Description:
        """Describe the step for plans and reports."""
        return changing(settings)

    def verify_undo(self, intent: ManualIntent, reader: LinkReader) -> Readback[ConfirmationFacts]:
        """Ask whether the step was rolled back; fails if that is impossible."""
        return verify_undo(intent, reader)


def changing(settings: ManualSettings) -> Description:
    """Describe a manual change."""
    rollback = one_line(settings.undo or "")
    return Description(one_line(settings.text), settings.expect or PROOF, rollback)


def verify_undo(intent: ManualIntent, reader: LinkReader) -> Readback[Any]:
    """Ask the operator whether a change was rolled back."""
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
    """Settings of every producer fence.

    Attributes:
        stabilize_seconds: how long end offsets must be stable.
        reverse: connectors that replicate to the cluster, if it is the recovered one.
        rebuild: whether topics may be missing because a rebuild recreates them.
    """

    cluster: str
    stabilize_seconds: Number
    reverse: tuple[str, ...] = ()
    rebuild: bool = False


@dataclass(frozen=True, kw_only=True)
class FenceIntent:
    """The settings of a producer fence, and the topics whose end offsets must be stable."""

    cluster: str
    topics: tuple[str, ...]
    stabilize_seconds: Number
    reverse: tuple[str, ...] = ()
    rebuild: bool = False

    @property
    def changes(self) -> bool:
        """Whether there is anything to do; always true if the operator does it."""
        return True


def watched(settings: FenceSettings, reader: LinkReader) -> dict[str, Any]:
    """The fields of a `FenceIntent`."""
    return {
        "cluster": settings.cluster,
        "topics": tuple(reader.topics()),
        "stabilize_seconds": settings.stabilize_seconds,
        "reverse": settings.reverse,
        "rebuild": settings.rebuild,
    }


def with_stable_ends(
    intent: FenceIntent, reader: LinkReader, held: Readback[Any], answer: str = ""
) -> Readback[FenceFacts]:
    """The proof of the fence itself, plus a proof that end offsets are stable."""
    if held.state is not State.DONE:
        return Readback(held.state, held.message, FenceFacts(answer=answer), held.items)
    stabilize_s = intent.stabilize_seconds
    # Without ACLs to prove: brokers do not know about this kind of fence.
    found = reader.fence(intent.cluster, stabilize_s).prove((), intent.topics).no_writes
    ends = {str(place): end for place, end in sorted(found.ends.items())}
    facts = FenceFacts(ends, answer=answer)
    if not found.proven:
        return Readback(State.WAITING, "; ".join(found.unproven[:_SHOWN]), facts, found.unproven)
    message = (
        f"{held.message}; the end offsets of {plural(len(ends), 'partition')} were stable"
        f" for {stabilize_s:g} s"
    )
    return Readback(State.DONE, message, facts)


@dataclass(frozen=True, kw_only=True)
class ManualFenceSettings(FenceSettings, ManualSettings):
    """What the operator is asked, and the cluster to fence."""


@dataclass(frozen=True, kw_only=True)
class ManualFenceIntent(FenceIntent, ManualIntent):
    """What the operator is asked, the cluster to fence, and the topics to watch."""


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
        """List the topics whose end offsets must be stable."""
        return ManualFenceIntent(**asked(settings), **watched(settings, reader))

    def verify(self, intent: ManualFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """Ask the operator, and verify that end offsets are stable."""
        confirmed = answered(intent.question, intent.text, reader)
        answer = confirmed.facts.answer if confirmed.facts else ""
        return with_stable_ends(intent, reader, confirmed, answer)

    def verify_undo(self, intent: ManualFenceIntent, reader: LinkReader) -> Readback[FenceFacts]:
        """Ask whether the step was rolled back; fails if that is impossible."""
        return verify_undo(intent, reader)


MANUAL_FENCE = ManualFence()
