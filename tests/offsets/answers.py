"""Parts of an answer."""

from drctl.model.translation import Answer
from drctl.offsets.methods import NoAnswer


def bounds(result: Answer | NoAnswer | None) -> tuple[int, int | None, int | None]:
    """Return the offset of an answer, and the most records read again and skipped."""
    assert isinstance(result, Answer), result
    return result.target_offset, result.rereads_at_most, result.skips_at_most


def reason(result: Answer | NoAnswer | None) -> str:
    """Return why there is no answer."""
    assert isinstance(result, NoAnswer), result
    return result.reason
