"""Where the positions of `drctl offsets apply` come from, and whether they are of its target."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.model.errors import Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.translation import Translation
    from drctl.offsets.documents import TranslationDocument
    from drctl.offsets.snapshot import Snapshot
    from drctl.offsets.wanted import Wanted

Translate = Callable[["Config", "Link", Sequence[str]], Sequence["Translation"]]
"""The rows of a link, of some groups where any are named."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What is wanted, and what it comes from, in words for a person."""

    wanted: "tuple[Wanted, ...]"
    told: str
    notes: tuple[str, ...] = ()


def translations(config: "Config", link: "Link", groups: Sequence[str]) -> "Sequence[Translation]":
    """The rows of `drctl offsets translate`.

    Raises:
        UsageError: a group's pattern is none.
        Unreachable: the target did not answer.
    """
    from drctl.cli.offsets.run import translated as translated_now
    from drctl.offsets.translating import NEVER

    unproven = config.policy.commits_unproven
    found = translated_now(link, groups, None, unproven=unproven)
    rows = (row.translation for row in found.rows)
    return [row for row in rows if row.blocked != NEVER]


def translated(
    config: "Config", link: "Link | None", groups: Sequence[str], translate: Translate
) -> Origin:
    """What is wanted where no file is given.

    Raises:
        UsageError: there is no link.
    """
    from drctl.offsets.wanted import from_translations

    if link is None:
        raise UsageError("--cluster goes with --from: only a link can be translated")
    return Origin(
        from_translations(translate(config, link, groups)), f"translation of link {link.name}"
    )


def origin_of(
    found: "Snapshot | TranslationDocument",
    file: Path,
    groups: Sequence[str],
    link: "Link | None",
    target: str,
    ids: "Ids",
) -> Origin:
    """What a file wants of the cluster that is to be written.

    Raises:
        UsageError: the file lacks a group that is named.
        Refused: it is of another cluster.
    """
    from drctl.offsets.snapshot import Snapshot, of_groups

    if isinstance(found, Snapshot):
        origin = _from_snapshot(found, file, link, target, ids)
    else:
        origin = _from_document(found, file, target, ids)
    return replace(origin, wanted=of_groups(origin.wanted, groups))


@dataclass(frozen=True, slots=True)
class Ids:
    """The clusters' own ids.

    Attributes:
        source: asked for only where it matters; the source may be dead.
    """

    target: str
    source: Callable[[], str]


def _from_snapshot(
    snapshot: "Snapshot", file: Path, link: "Link | None", target: str, ids: Ids
) -> Origin:
    from drctl.offsets.snapshot import restored

    told = f"snapshot {file} of {snapshot.cluster}, {snapshot.taken:%Y-%m-%d %H:%M:%S} UTC"
    notes = [
        f"the snapshot lacks group {name}: {why}" for name, why in snapshot.unavailable.items()
    ]
    wanted = restored(snapshot)
    if snapshot.cluster_id != ids.target:
        wanted = _carried_over(snapshot, wanted, link, target, ids)
        notes.append("the offsets are the source's: the link says that they are kept")
    return Origin(wanted, told, tuple(notes))


def _carried_over(
    snapshot: "Snapshot", wanted: "tuple[Wanted, ...]", link: "Link | None", target: str, ids: Ids
) -> "tuple[Wanted, ...]":
    """Positions of the source, for a target that keeps its offsets."""
    from drctl.offsets.snapshot import renamed

    if link is None or not _of_source(snapshot, link, ids):
        raise Refused(
            f"the snapshot is of cluster {snapshot.cluster} ({snapshot.cluster_id}), not of"
            f" {target} ({ids.target}): its offsets mean other records there",
            "translate them with `drctl offsets apply --link`; a snapshot goes back to the cluster"
            " that it was taken of (--cluster), or over a link of kind offset-preserving",
        )
    return renamed(wanted, link.carries_group, link.carries, link.target_topic)


def _from_document(document: "TranslationDocument", file: Path, target: str, ids: Ids) -> Origin:
    of = document.target_id or document.target
    if of and of != (ids.target if document.target_id else target):
        raise Refused(
            f"{file} is a translation for cluster {of}, not for {target} ({ids.target})",
            "translate anew, or choose the link with --link",
        )
    notes = () if of else (f"{file} does not say for which cluster it is",)
    return Origin(document.rows, f"translation {file}", notes)


def _of_source(snapshot: "Snapshot", link: "Link", ids: Ids) -> bool:
    """Whether it was taken of the source of a link that keeps offsets; by name if that is dead."""
    if link.settings.replicator.kind != "offset-preserving":
        return False
    try:
        return snapshot.cluster_id == ids.source()
    except Unreachable:
        return snapshot.cluster == link.source
