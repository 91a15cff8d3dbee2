"""Duplicates, as a killed Connect worker makes them, are reported, but not as unreplicated."""

from dataclasses import dataclass, field

from drctl.engine.failback_state import Search
from drctl.engine.kind import State
from drctl.engine.ports import Missing
from drctl.model.topology import TopicPartition
from drctl.model.typed_json import to_json
from tests.engine.test_failback_steps import ENDS, Around, check, verify

PLACE = TopicPartition("orders", 0)
ON_FAILBACK = {**ENDS, "forward": False}
AWAY = {"source": "primary", "target": "secondary", "forward": True}


@dataclass
class Compared(Around):
    """Records which comparisons were made."""

    scopes: list[str] = field(default_factory=list)

    def compared(self, scope: str) -> Missing:
        self.scopes.append(scope)
        return self.found

    def missing(self) -> Missing:
        self.scopes.append("tail")
        return self.found


def search(duplicated: int) -> dict[str, object]:
    """Create a search result with this many duplicates on the surviving cluster."""
    return to_json(Search("gap/main-1", 0, 0, 0, 0, {}, {}, duplicated=duplicated))


def test_the_failback_drain_ignores_duplicates_only() -> None:
    """How many of them are in the tail is unknown, so everything is compared."""
    world = Compared(found=Missing(7, repeated=7))
    intent = check("drain", {"target": "primary"}, world, find_missing=search(7))
    assert (verify("drain", intent, world).state, world.scopes) == (State.DONE, ["full"])
    world.found = Missing(8, repeated=7)
    assert verify("drain", intent, world).message == "1 record is not replicated yet"
    plain = check("drain", {"target": "primary"}, world, find_missing=search(0))
    assert verify("drain", plain, world).message == "8 records are not replicated yet"
    assert world.scopes == ["full", "full", "tail"]


def test_a_duplicate_deleted_by_retention_hides_no_missing_record() -> None:
    """Two of seven counted duplicates were deleted since; two other records never arrived."""
    world = Compared(found=Missing(7, repeated=5))
    intent = check("drain", {"target": "primary"}, world, find_missing=search(7))
    assert verify("drain", intent, world).message == "2 records are not replicated yet"
    proof = check("verify-copies", ON_FAILBACK, world, find_missing=search(7))
    assert verify("verify-copies", proof, world).message.startswith("primary is missing 2 records")


def test_a_duplicate_on_the_surviving_cluster_is_not_missing_on_the_primary() -> None:
    world = Around(found=Missing(7, repeated=7))
    intent = check("verify-copies", ON_FAILBACK, world, find_missing=search(7))
    seen = verify("verify-copies", intent, world)
    assert (seen.state, seen.facts, seen.outstanding) == (
        State.DONE, {"missing": 0, "duplicated": 0}, "",
    )  # fmt: skip
    world.found = Missing(8, repeated=7)
    assert verify("verify-copies", intent, world).message.startswith("primary is missing 1 record")


def test_a_duplicate_on_the_primary_is_outstanding_but_not_missing_on_the_secondary() -> None:
    world = Around(found=Missing(0, duplicated=3))
    verified = verify("verify-copies", check("verify-copies", ON_FAILBACK, world), world)
    assert verified.outstanding == "primary holds 3 duplicate records"
    left = {"given_up": 2, "done": {}}
    intent = check(
        "verify-forward-copies", AWAY, world, verify_copies=verified.facts, reconcile=left,
        find_missing=search(0),
    )  # fmt: skip
    world.found = Missing(5, repeated=3)
    seen = verify("verify-forward-copies", intent, world)
    assert (seen.state, seen.facts["missing"], seen.outstanding) == (State.DONE, 2, "")
    world.found = Missing(6, repeated=3)
    assert verify("verify-forward-copies", intent, world).state is State.WAITING


def test_a_duplicate_that_forward_replication_makes_is_outstanding_but_not_missing() -> None:
    """It is running again when the primary is verified, and MirrorMaker 2 may copy twice."""
    world = Around(found=Missing(9, repeated=9))
    intent = check("verify-copies", ON_FAILBACK, world, find_missing=search(7))
    seen = verify("verify-copies", intent, world)
    assert (seen.state, seen.facts["missing"]) == (State.DONE, 0)
    assert seen.outstanding == "secondary holds 2 duplicate records"
    world.found = Missing(10, repeated=9)
    assert verify("verify-copies", intent, world).message.startswith("primary is missing 1 record")
