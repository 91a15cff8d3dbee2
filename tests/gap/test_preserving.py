"""If copies keep their offsets, the target's end offset is how far replication got."""

from collections.abc import Callable, Sequence

from drctl.app.replication_progress import PreservingPositions
from drctl.gap.tail import Position
from drctl.model.topology import Found, Mark, Overview, TopicPartition, Unavailable


class Target:
    """Three partitions of copies; one does not respond, and one has another topic's records."""

    name = "secondary"

    def overview(self) -> Overview:
        return Overview("id", {"copy.t": (0, 1), "other": (0,)})

    def look_up(
        self, questions: Sequence[tuple[TopicPartition, int]]
    ) -> Callable[[], Sequence[Found | Unavailable]]:
        assert questions == [(TopicPartition("copy.t", n), Mark.STABLE) for n in (0, 1)]
        return lambda: [Found(7, -1), Unavailable("no leader")]


def test_the_targets_last_stable_offset_is_the_position() -> None:
    finder = PreservingPositions(Target(), lambda topic: f"copy.{topic}")  # type: ignore[arg-type]
    found = finder.positions(["t", "u"])
    assert found == {TopicPartition("t", 0): Position(7, "secondary ends at offset 7")}
