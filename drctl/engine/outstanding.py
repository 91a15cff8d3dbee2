"""What earlier runs owe, held against what a way home has shown: what of it settles which.

What nothing has shown stays owed: no time that has passed settles it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from drctl.engine.failback_state import Owed
from drctl.engine.kind import Facts

_CLOSED = ("close-source", "command-close-source", "manual-close-source")
_FENCED = ("fence-producers", "command-fence", "manual-fence")
_HOME, _AWAY = "prove-copies", "prove-old-copies"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a way home has shown.

    Attributes:
        left: the cluster that clients have left.
        home: the one where they are again.
        facts: of its steps, by kind.
    """

    left: str
    home: str
    facts: Facts

    def any_of(self, kinds: Collection[str]) -> bool:
        """Whether a step of one of these kinds is done."""
        return any(kind in self.facts for kind in kinds)


def settled_by(owed: Owed, shown: Shown) -> str:
    """By which proof it is settled, in words; empty where none of them does."""
    if owed.fences:
        return _fence(owed, shown)
    proof = _PROOFS.get(owed.kind)
    return proof(owed, shown) if proof is not None else ""


def _fence(owed: Owed, shown: Shown) -> str:
    """A fence that was not set, or that something came through."""
    if owed.source == shown.home and shown.any_of(_CLOSED) and _AWAY in shown.facts:
        return (
            f"{shown.home} was closed before its records were found, and {shown.left} lacks none"
            " but what was decided on (prove-away)"
        )
    if owed.source == shown.left and shown.any_of(_FENCED) and _HOME in shown.facts:
        return f"{shown.left} was fenced, and {shown.home} lacks nothing of it (prove-home)"
    return ""


def _of_clients(owed: Owed, shown: Shown) -> str:
    """What clients needed on the cluster to which they were moved."""
    if owed.target == shown.left and shown.any_of(_FENCED) and "verify-clients" in shown.facts:
        return f"{shown.left} is fenced, and clients have left it (verify-clients)"
    return ""


def _second_copies(owed: Owed, shown: Shown) -> str:
    cluster = owed.target if owed.kind == _HOME else owed.source
    proof, step = (_HOME, "prove-home") if cluster == shown.home else (_AWAY, "prove-away")
    if shown.facts.get(proof, {}).get("duplicated") == 0:
        return f"{cluster} holds no record twice ({step})"
    return ""


def _copied_back(owed: Owed, shown: Shown) -> str:
    """What was to copy back to the cluster that is home again."""
    if owed.source == shown.home and _HOME in shown.facts:
        return f"{shown.home} has all that {shown.left} has (prove-home)"
    return ""


def _positions(owed: Owed, shown: Shown) -> str:
    """Groups that had no place to go on, or were thrown back."""
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
    _HOME: _second_copies,
    _AWAY: _second_copies,
    "start-old-replication": _copied_back,
    "commit-offsets": _positions,
    "prove-groups": _positions,
}
