"""What is asked of an answer."""

from drctl.model.translation import Answer
from drctl.offsets.methods import NoAnswer


def bounds(said: Answer | NoAnswer | None) -> tuple[int, int | None, int | None]:
    """Where an answer leads, and what is read again and skipped at most."""
    assert isinstance(said, Answer), said
    return said.target_offset, said.rereads_at_most, said.skips_at_most


def reason(said: Answer | NoAnswer | None) -> str:
    """Why there is no answer."""
    assert isinstance(said, NoAnswer), said
    return said.reason
