"""What a gap analysis did not read, and why it need not or could not, in words."""

from collections import Counter

from drctl.model.gap import GapResult, LedgerUse, Window
from drctl.report.printable import age, number, plain, plural


def ledger_facts(result: GapResult) -> tuple[str, ...]:
    """What the ledger gave to this run, and what of it did not hold any more."""
    use = result.ledger
    if use is None:
        return ()
    said = [_known(result, use)]
    reasons = Counter((f.reason, f.side) for f in use.forgotten)
    said += [
        f"The ledger of {plural(count, 'partition')} of the {side} was set aside, and these were "
        f"read again: {plain(reason)}."
        for (reason, side), count in reasons.items()
    ]
    if not use.kept:
        said.append(f"What was read now is not in the ledger: {plain(use.why_not)}.")
    return tuple(said)


def _known(result: GapResult, use: LedgerUse) -> str:
    if use.oldest_ms is None:
        return f"The ledger {plain(use.where)} knew nothing of it: everything was read."
    return (
        f"{plural(use.offsets_known, 'offset')} of both sides were not read again: the ledger has "
        f"their digests. The oldest of them are {age(use.oldest_ms, result.started)}."
    )


def taken_for_granted(result: GapResult) -> tuple[str, ...]:
    """What lies before the windows of a tail."""
    windows = [p.window for p in result.partitions if p.window and not p.window.whole]
    if not windows:
        return ()
    said = [
        f"Whether anything is missing before the tail, in {plural(len(windows), 'partition')}: "
        f"{plain(_witness(windows[0]))}{_and_others(windows)}. Nothing was missing in the stretch "
        f"of {number(min(w.margin for w in windows))} offsets or more before these places.",
        "Copies made twice of records before the tail count as only on the target.",
    ]
    return tuple(said)


def _witness(window: Window) -> str:
    return f"{window.evidence} ({window.topic}-{window.partition})"


def _and_others(windows: list[Window]) -> str:
    return f", and so on for {plural(len(windows) - 1, 'more')}" if len(windows) > 1 else ""
