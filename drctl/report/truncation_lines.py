"""What cutting the source back, or making it anew, would destroy: words and rows for people."""

from collections.abc import Mapping
from dataclasses import dataclass

from drctl.model.gap import GapResult
from drctl.model.pasting import quote
from drctl.model.truncation import DoomedPartition, Export, Truncation
from drctl.report.printable import number, plain, plural, size


@dataclass(frozen=True, slots=True)
class Procedure:
    """A way to make the source a copy of the target again, and what it costs."""

    name: str
    records: int
    bytes: int
    meaning: str


def procedures(result: GapResult, found: Truncation) -> tuple[Procedure, ...]:
    """Truncate-and-restore of an offset-preserving mirror, and everything that starts anew."""
    totals, source, target = found.totals, plain(result.source), plain(result.target)
    cut = sum(each.cut_from is not None for each in found.partitions)
    back = f"what {target} holds of that comes back from there"
    return (
        Procedure(
            "truncate and restore",
            totals["records"],
            totals["bytes"],
            f"cuts {plural(cut, 'partition')} of {source} where both sides part,"
            f" {plural(totals['offsets_cut'], 'offset')} in all; {back}",
        ),
        Procedure(
            "rebuild or re-mirror",
            totals["records"] + totals["others"],
            totals["bytes"] + totals["other_bytes"],
            f"deletes topics of {source} and copies them from {target}{_with_others(totals)}",
        ),
    )


def _with_others(totals: Mapping[str, int]) -> str:
    others = totals["others"]
    return f": with them go {plural(others, 'superseded or expired record')}" if others else ""


def worst_of(found: Truncation) -> list[DoomedPartition]:
    """The partitions that lose most first."""
    return sorted(found.partitions, key=lambda p: (-p.records, -p.others, p.topic, p.partition))


def headline(result: GapResult, found: Truncation) -> str:
    """What is at stake, in one sentence."""
    totals, source = found.totals, plain(result.source)
    if not found.partitions:
        rest = "" if result.complete else " of what was compared"
        return f"Nothing{rest} would be lost: {plain(result.target)} holds all of it."
    every = totals["records"] + totals["others"]
    return (
        f"Up to {plural(every, 'record')} ({size(totals['bytes'] + totals['other_bytes'])}) of"
        f" {plural(len(found.partitions), 'partition')} are nowhere but on {source}, and would be"
        " destroyed."
    )


def unsaid(result: GapResult) -> tuple[str, ...]:
    """What nobody looked at, and would be destroyed likewise."""
    said = []
    if result.not_compared:
        said.append("What could not be compared (see drctl gap) would be destroyed likewise.")
    if result.totals.undecided:
        said.append(
            f"So would {plural(result.totals.undecided, 'offset')} of transactions that have not"
            " ended."
        )
    if any(p.window and not p.window.whole for p in result.partitions):
        said.append("Nothing was looked at before the tail: use --scope full before a rebuild.")
    return tuple(said)


def kept(result: GapResult, found: Truncation) -> str:
    """Where the records are safe, or how to make them so; empty where there are none."""
    if found.export is not None:
        return _exported(found.export, found.totals["others"])
    records, others = found.totals["records"], found.totals["others"]
    if not records and not others:
        return ""
    too = " --others" if others else ""
    said = f"Export them first: drctl gap --view truncation --export DIR{too}"
    if not records:
        return f"{said}."
    alone = " for the unreplicated ones" if others else ""
    return (
        f"{said}, or{alone} drctl reconcile {quote(result.out)} --policy export --conflicting"
        " export --execute."
    )


def _exported(export: Export, others: int) -> str:
    said = f"Exported: {plural(export.records, 'record')} to {plain(export.folder)}"
    said += _gone(export.gone)
    if export.others is not None:
        more = plural(export.others, "superseded or expired record")
        said += f"; {more} to {plain(export.folder)}/others{_gone(export.others_gone)}."
    elif others:
        said += ". Superseded and expired ones are not among them: --others takes them, too."
    else:
        said += "."
    return said + _appended(export.appended)


def _appended(offsets: int) -> str:
    """What nobody has looked at."""
    if not offsets:
        return ""
    return (
        f" The source has grown by {plural(offsets, 'offset')} since the comparison: what they hold"
        " is not exported. Fence the source, and run it again."
    )


def _gone(count: int) -> str:
    """Of what could not be exported."""
    return f" ({number(count)} more {'was' if count == 1 else 'were'} gone before)" if count else ""


def offsets(each: DoomedPartition) -> str:
    """Which offsets a cut takes."""
    return "-" if each.cut_from is None else f"{number(each.cut_from)}-{number(each.end - 1)}"
