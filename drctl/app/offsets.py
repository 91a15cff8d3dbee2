"""Opens what a translation needs, and translates."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.app import adapters
from drctl.app.notices import notices
from drctl.model.errors import Refused, Unreachable, UsageError

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.model.translation import Translation
    from drctl.offsets.documents import TranslationDocument
    from drctl.offsets.link_translation import Cluster, LinkTranslated
    from drctl.offsets.snapshot import Snapshot
    from drctl.offsets.wanted import Wanted

QUICK_S = 5.0
"""How long a source may take to answer that is likely to be dead."""


def link_translated(
    link: "Link",
    groups: Sequence[str],
    given_ms: int | None,
    *,
    unproven: bool,
    shown: bool = True,
) -> "LinkTranslated":
    """All rows of the link.

    Args:
        groups: full-match patterns; none means all.
        given_ms: a time that the engineer gives, in milliseconds UTC.
        unproven: `policy.unproven_offsets` is `commit`.
        shown: whether a person sees how far it is; a thread of its own must not draw.

    Raises:
        UsageError: a pattern is none.
        Unreachable: the target did not answer.
    """
    from drctl.offsets.anchor_log import scope_of
    from drctl.offsets.evidence_topics import EvidenceTopics
    from drctl.offsets.link_translation import LinkTranslation

    wanted = chooser(groups)
    replicator = link.settings.replicator
    with (
        _opened(link.source, link.source_config, QUICK_S) as source,
        _opened(link.target, link.target_config, adapters.PATIENCE_S) as target,
        notices().task("translating") if shown else nullcontext() as task,
    ):
        evidence = EvidenceTopics(
            (source.reader, source.records),
            (target.reader, target.records),
            lambda: adapters.mirror_aliases(link, target.reader),
            mirrors=replicator.kind == "mirrormaker2",
            copied_topic=replicator.copied_offsets_topic,
            scope=scope_of(link),
        )
        run = LinkTranslation(
            link,
            source,
            target,
            evidence,
            same_offsets=replicator.kind == "offset-preserving",
            # What else copies records and tells offsets by headers has no kind of its own.
            named_offsets=replicator.kind == "none",
            now_ms=int(time.time() * 1000),
            given_ms=given_ms,
            unproven=unproven,
        )
        return run.run(wanted, lambda phase: task.update(description=phase) if task else None)


def chooser(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a name matches one of these, or there are none.

    Raises:
        UsageError: a pattern is no regular expression.
    """
    from drctl.model.errors import UsageError

    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise UsageError(
            f"{error.pattern!r} is not a regular expression: {error.msg}",
            "put a backslash before characters that mean themselves",
        ) from None
    return lambda name: not compiled or any(c.fullmatch(name) for c in compiled)


@contextmanager
def _opened(name: str, config: "ClusterConfig", timeout_s: float) -> "Iterator[Cluster]":
    from drctl.offsets.link_translation import Cluster

    with (
        adapters.open_reader(name, config, timeout_s) as reader,
        adapters.open_group_reader(name, config, timeout_s) as groups,
    ):
        yield Cluster(reader, groups, adapters.range_reader(name, config))


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
    from drctl.offsets.translating import NEVER

    unproven = config.policy.commits_unproven
    found = link_translated(link, groups, None, unproven=unproven)
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
        UsageError: the file does not have a group that is named.
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
