"""Guards that somebody passes over, as typed."""

from collections.abc import Collection, Iterable

from drctl.model.errors import UsageError


def reasons_given(given: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """`GUARD=REASON` as typed: guard to the reason why it is passed over.

    Args:
        known: the guards that may be.

    Raises:
        UsageError: there is no such guard, it cannot be passed over, or no reason is given.
    """
    found = {}
    for text in given:
        name, _, reason = (part.strip() for part in text.partition("="))
        if name not in known:
            raise UsageError(
                f"there is no guard {name!r} that can be passed over",
                f"those that can: {', '.join(known)}",
            )
        if not reason:
            raise UsageError(
                f"--override {name} needs a reason", "it is kept in the journal of the run"
            )
        found[name] = reason
    return found
