"""Which outstanding actions of earlier runs are settled by what a failback has proven.

What nothing has proven stays outstanding, however much time has passed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from drctl.engine.failback_state import Owed
from drctl.engine.kind import Facts

_CLOSED = ("close-source", "command-close-source", "manual-close-source")
_FENCED = ("fence-producers", "command-fence", "manual-fence")
_PRIMARY, _SECONDARY = "prove-copies", "prove-old-copies"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a failback has proven.

    Attributes:
        left: the cluster that clients have left.
        home: the cluster to which they have failed back.
        facts: of its steps, by kind.
    """

    left: str
    home: str
    facts: Facts

    def any_of(self, kinds: Collection[str]) -> bool:
        """Whether a step of one of these kinds is done."""
        return any(kind in self.facts for kind in kinds)


def settled_by(owed: Owed, shown: Shown) -> str:
    """The proof that settles it, in words; empty where there is none."""
    if owed.fences:
        return _fence(owed, shown)
    proof = _PROOFS.get(owed.kind)
    return proof(owed, shown) if proof else ""


def _fence(owed: Owed, shown: Shown) -> str:
    """A fence that was not set, or that something came through."""
    if owed.source == shown.home and shown.any_of(_CLOSED) and _SECONDARY in shown.facts:
        return (
            f"{shown.home} was closed before its records were found, and {shown.left} lacks none"
            " but what was decided on (prove-away)"
        )
    if owed.source == shown.left and shown.any_of(_FENCED) and _PRIMARY in shown.facts:
        return f"{shown.left} was fenced, and {shown.home} lacks nothing of it (prove-home)"
    return ""


def _of_clients(owed: Owed, shown: Shown) -> str:
    """What clients needed on the cluster to which they were moved."""
    if owed.target == shown.left and shown.any_of(_FENCED) and "verify-clients" in shown.facts:
        return f"{shown.left} is fenced, and clients have left it (verify-clients)"
    return ""


def _second_copies(owed: Owed, shown: Shown) -> str:
    cluster = owed.target if owed.kind == _PRIMARY else owed.source
    proof, step = (_PRIMARY, "prove-home") if cluster == shown.home else (_SECONDARY, "prove-away")
    if shown.facts.get(proof, {}).get("duplicated") == 0:
        return f"{cluster} holds no record twice ({step})"
    return ""


def _copied_back(owed: Owed, shown: Shown) -> str:
    """What was to be replicated to the cluster that is active again."""
    if owed.source == shown.home and _PRIMARY in shown.facts:
        return f"{shown.home} has all that {shown.left} has (prove-home)"
    return ""


def _positions(owed: Owed, shown: Shown) -> str:
    """Groups that had no offset to resume from, or were moved back."""
    put = shown.facts.get("commit-offsets", {}).get("stand", {})
    proven = shown.facts.get("prove-groups", {"wrong": None}).get("wrong") == 0
    if proven and owed.groups and all(group in put for group in owed.groups):
        names = ", ".join(owed.groups)
        return f"{names}: each has a place on {shown.home} now, and stands there (prove-groups)"
    return ""


_PROOFS: Mapping[str, Callable[[Owed, Shown], str]] = {
    "prepare-groups": _of_clients,
    "skip-producer-ids": _of_clients,
    "open-target": _of_clients,
    _PRIMARY: _second_copies,
    _SECONDARY: _second_copies,
    "start-old-replication": _copied_back,
    "commit-offsets": _positions,
    "prove-groups": _positions,
}
