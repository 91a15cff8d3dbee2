"""MirrorMaker 2: whether its connectors replicate and translate what the link claims."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from drctl.checks.check import Family, NotObserved, Verdict, check, fail, ok, separately
from drctl.checks.connectors import CHECKPOINT, SOURCE, all_connectors, find, required
from drctl.checks.observed import Observed
from drctl.checks.settings import Settings
from drctl.config.foreign_patterns import compiled
from drctl.config.mirrors import renaming
from drctl.model.finding import Status
from drctl.model.topology import Unavailable

_FAMILY = Family.MIRRORMAKER
_TOPICS_EXCLUDE = r"mm2.*\.internal, .*\.replica, __.*"
_GROUPS_EXCLUDE = "console-consumer-.*, connect-.*, __.*"
_NAMING = {
    "replication.policy.class": "DefaultReplicationPolicy",
    "replication.policy.separator": ".",
    "source.cluster.alias": "source",
}
_NAMED = 5
_WITHOUT = {
    SOURCE: "records are not replicated",
    CHECKPOINT: "with a dead source, positions are known from anchors and consumer timestamps only",
}


@check(
    "mm2-connectors",
    _FAMILY,
    "the link's source and checkpoint connectors are on the workers, between the same clusters",
    Status.FAIL,
)
def connectors(observed: Observed) -> Iterator[Verdict]:
    """Whether both are there, and belong together."""
    found = {name: find(observed, name) for name in (SOURCE, CHECKPOINT)}
    evidence = f"connectors: {', '.join(sorted(all_connectors(observed))) or 'none'}"
    for class_name, connector in found.items():
        if connector is None:
            role = "source" if class_name == SOURCE else "checkpoint"
            cure = f"deploy it, or correct `replicator.connectors.{role}` of the link"
            reason = f"the link's {class_name} is not on the workers"
            yield fail("Connect", reason, evidence, _WITHOUT[class_name], cure)
    pairs = {c.name: _clusters(c.config) for c in found.values() if c is not None}
    evidence = "; ".join(f"{name}: {pair}" for name, pair in pairs.items())
    if len(set(pairs.values())) > 1:
        reason = "they work between different clusters"
        cure = "give both the same source.cluster.alias and target.cluster.alias"
        yield fail(f"connectors {', '.join(pairs)}", reason, evidence, _WITHOUT[CHECKPOINT], cure)
    elif len(pairs) == len(found):
        yield ok(f"connectors {', '.join(pairs)}", "they are there, and belong together", evidence)


@check(
    "mm2-topics",
    _FAMILY,
    "`topics` and `topics.exclude` of both connectors let all of the link's topics pass",
    Status.WARN,
    Status.FAIL,
)
def topics(observed: Observed) -> Iterator[Verdict]:
    """Whether topics that the link carries are left out."""
    return separately(
        partial(_topics, observed, class_name, status)
        for class_name, status in ((SOURCE, Status.FAIL), (CHECKPOINT, Status.WARN))
    )


@check(
    "mm2-groups",
    _FAMILY,
    "`groups` and `groups.exclude` of the checkpoint connector let all of the link's groups pass",
    Status.WARN,
)
def groups(observed: Observed) -> Iterator[Verdict]:
    """Whether groups that the link carries get no checkpoints."""
    settings = required(observed, CHECKPOINT)
    known = observed.source_groups
    if isinstance(known, Unavailable):
        reason = f"the source's groups are not known: {known.reason}"
        raise NotObserved(settings.subject, reason, f"look at groups of {settings.subject}")
    wanted = sorted(filter(observed.link.carries_group, known))
    cost = f"{_WITHOUT[CHECKPOINT]} for these groups"
    yield _covered(settings, "groups", _GROUPS_EXCLUDE, wanted, Status.WARN, cost)


@check(
    "mm2-names",
    _FAMILY,
    "`replication.policy.class` and `.separator` of both connectors give topics the names that"
    " `rename` of the link says",
    Status.FAIL,
)
def names(observed: Observed) -> Iterator[Verdict]:
    """Whether drctl looks for the copies under the names that they have."""
    return separately(partial(_names, observed, name) for name in (SOURCE, CHECKPOINT))


def _topics(observed: Observed, class_name: str, status: Status) -> Verdict:
    settings, known = required(observed, class_name), observed.source_topics
    if isinstance(known, Unavailable):
        reason = f"the source's topics are not known: {known.reason}"
        raise NotObserved(settings.subject, reason, f"look at topics of {settings.subject}")
    wanted = observed.link.topics_of(name for name, state in known.items() if state is not None)
    cost = "they are not replicated: whatever they hold is lost with the source"
    if class_name == CHECKPOINT:
        cost = f"{_WITHOUT[CHECKPOINT]} in these topics"
    return _covered(settings, "topics", _TOPICS_EXCLUDE, wanted, status, cost)


def _names(observed: Observed, class_name: str) -> Verdict:
    wanted = observed.link.settings.replicator.rename
    settings = required(observed, class_name)
    seen = [settings.text(key, default) for key, default in _NAMING.items()]
    evidence = "; ".join(each.evidence for each in seen)
    rename, unsure = renaming(settings.values)
    if unsure:
        cure = "look at what it makes of names, and compare `rename` of the link with that"
        raise NotObserved(settings.subject, unsure[0], cure, evidence)
    if rename == wanted:
        return ok(settings.subject, f"topics are called {rename}, as the link says", evidence)
    reason = f"topics are called {rename}, and the link says {wanted}"
    cost = "positions are looked for in topics that do not exist: no group is translated"
    cure = f"set `rename` of the link to {rename}, or give both connectors the link's policy"
    return fail(settings.subject, reason, evidence, cost, cure)


def _covered(
    settings: Settings, key: str, excluded: str, wanted: Iterable[str], status: Status, cost: str
) -> Verdict:
    kind = key.removesuffix("s")
    filter_class = settings.text(f"{kind}.filter.class", "")
    if filter_class.value and not filter_class.value.endswith(f"Default{kind.title()}Filter"):
        cure = f"ask whoever wrote it which {key} it lets pass"
        raise NotObserved(settings.subject, "it has a filter of its own", cure, filter_class[1])
    within, without = settings.words(key, ".*"), settings.words(f"{key}.exclude", excluded)
    evidence = f"{within.evidence}; {without.evidence}"
    passing, stopped = (_matcher(settings, words.value) for words in (within, without))
    left_out = [n for n in wanted if not passing.fullmatch(n) or stopped.fullmatch(n)]
    if not left_out:
        return ok(settings.subject, f"all {key} of the link pass", evidence)
    more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
    told = ", ".join(left_out[:_NAMED]) + more
    cure = f"widen {key}, or narrow {key}.exclude, of {settings.subject}; or the link's own {key}"
    reason = f"{len(left_out)} of the link's {key} do not pass: {told}"
    return Verdict(status, settings.subject, reason, evidence, cost, cure)


def _matcher(settings: Settings, patterns: tuple[str, ...]) -> re.Pattern[str]:
    """As MirrorMaker 2 matches: any of them, whole names."""
    text = "|".join(patterns) if patterns else r"(?!)"
    if all(map(compiled, patterns)):
        with suppress(re.error):  # names of groups may be there twice by now
            return re.compile(text)
    reason = "it has a pattern that is left to Java"
    raise NotObserved(settings.subject, reason, "try it on the names", text)


def _clusters(config: Mapping[str, str]) -> str:
    source = config.get("source.cluster.alias", "source")
    return f"{source} -> {config.get('target.cluster.alias', 'target')}"
