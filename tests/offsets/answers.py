"""Parts of an answer."""

from drctl.model.translation import Answer
from drctl.offsets.methods import NoAnswer


def bounds(said: Answer | NoAnswer | None) -> tuple[int, int | None, int | None]:
    """Return the offset of an answer, and the most records read again and skipped."""
    assert isinstance(said, Answer), said
    return said.target_offset, said.rereads_at_most, said.skips_at_most


def reason(said: Answer | NoAnswer | None) -> str:
    """Return why there is no answer."""
    assert isinstance(said, NoAnswer), said
    return said.reason
