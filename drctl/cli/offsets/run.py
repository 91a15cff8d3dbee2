"""Opens what a translation needs, and translates."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from drctl.cli import wiring
from drctl.cli.notices import notices

if TYPE_CHECKING:
    from drctl.config.link import Link
    from drctl.config.schema import ClusterConfig
    from drctl.offsets.link_translation import Cluster, LinkTranslated

QUICK_S = 5.0
"""How long a source may take to answer that is likely to be dead."""


def translated(
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
        _opened(link.target, link.target_config, wiring.PATIENCE_S) as target,
        notices().task("translating") if shown else nullcontext() as task,
    ):
        evidence = EvidenceTopics(
            (source.reader, source.records),
            (target.reader, target.records),
            lambda: wiring.mirror_aliases(link, target.reader),
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
        wiring.open_reader(name, config, timeout_s) as reader,
        wiring.open_group_reader(name, config, timeout_s) as groups,
    ):
        yield Cluster(reader, groups, wiring.range_reader(name, config))
