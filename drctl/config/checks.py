"""What must hold between the values of a file, looked at even where single values are wrong."""

from collections.abc import Iterator

from drctl.config import endpoint_checks
from drctl.config.document import Document, Mapping, Node, Scalar, Sequence
from drctl.config.problems import Path, Problem, did_you_mean, one_of, quoted


def problems(document: Document) -> Iterator[Problem]:
    """Everything that does not go together."""
    for name in _keys(document, ("links",)):
        link = ("links", name)
        yield from _ends(document, link)
        yield from _replicator(document, (*link, "replicator"))
        yield from _fence(document, (*link, "fence"))
        yield from endpoint_checks.problems(document, link)
    yield from _cluster(document, ("ledger", "cluster"))


def _cluster(document: Document, path: Path) -> Iterator[Problem]:
    node, clusters = _scalar(document, path), _keys(document, ("clusters",))
    if node and clusters and node.text not in clusters:
        near = did_you_mean(node.text, clusters) or f"there are {one_of(clusters)}"
        text = f"names no cluster of this file; {near} ({quoted(node.text)})"
        yield Problem(node.mark, path, text)


def _ends(document: Document, link: Path) -> Iterator[Problem]:
    for end in ("from", "to"):
        yield from _cluster(document, (*link, end))
    source, target = (_scalar(document, (*link, end)) for end in ("from", "to"))
    if source and target and source.text == target.text:
        text = f"is the same cluster as `from` ({quoted(target.text)})"
        yield Problem(target.mark, (*link, "to"), text)
    elif source and target:
        yield from _same_brokers(document, link, source, target)


def _same_brokers(
    document: Document, link: Path, source: Scalar, target: Scalar
) -> Iterator[Problem]:
    """A cluster compared with itself lacks nothing: an answer that must never be given."""
    brokers = (_scalar(document, ("clusters", end.text, "bootstrap")) for end in (source, target))
    first, second = brokers
    if first and second and first.text == second.text:
        text = f"has the same bootstrap as `from`: {quoted(source.text)} ({quoted(target.text)})"
        yield Problem(target.mark, (*link, "to"), text)


def _replicator(document: Document, path: Path) -> Iterator[Problem]:
    kind = _scalar(document, (*path, "kind"))
    for side in (path, (*path, "reverse")):
        connectors = document.entry((*side, "connectors"))
        connect = document.entry((*side, "connect"))
        if connectors and not connect and not _empty(connectors.node):
            yield Problem(connectors.mark, (*side, "connect"), "is required beside `connectors`")
        yield from _access(document, side)
    for key in ("connect", "connectors", "reverse"):
        entry = document.entry((*path, key))
        if kind and kind.text == "none" and entry and not _empty(entry.node):
            text = "goes with a replicator, not with kind none"
            yield Problem(entry.mark, (*path, key), text)
    yield from _stopped_by_command(document, path)
    yield from _started_after_failover(document, path, kind)
    yield from _copied_offsets(document, path, kind)


def _access(document: Document, side: Path) -> Iterator[Problem]:
    path = (*side, "connect_access")
    given = document.entry(path)
    if given and not _empty(given.node) and not document.entry((*side, "connect")):
        yield Problem(given.mark, (*side, "connect"), "is required beside `connect_access`")
    for key, other in (
        ("password", "user"),
        ("user", "password"),
        ("key", "certificate"),
        ("key_password", "certificate"),
    ):
        entry = document.entry((*path, key))
        if entry and not document.entry((*path, other)):
            yield Problem(entry.mark, (*path, other), f"is required beside `{key}`")


def _stopped_by_command(document: Document, path: Path) -> Iterator[Problem]:
    def filled(key: str) -> bool:
        entry = document.entry((*path, key))
        return entry is not None and not _empty(entry.node)

    for key in ("stop", "start", "stopped"):
        entry = document.entry((*path, key))
        if entry is None or _empty(entry.node):
            continue
        if filled("connectors"):
            text = "goes with a replicator that has no `connectors`: those are stopped by drctl"
            yield Problem(entry.mark, (*path, key), text)
        elif not filled("stop"):
            yield Problem(entry.mark, (*path, "stop"), f"is required beside `{key}`")


def _started_after_failover(
    document: Document, path: Path, kind: Scalar | None
) -> Iterator[Problem]:
    """Where it begins is set by drctl: else it copies everything a second time."""
    path = (*path, "reverse")
    wanted = _scalar(document, (*path, "after_failover"))
    if wanted is None or wanted.value is not True:
        return
    place = (*path, "after_failover")
    if kind and kind.text != "mirrormaker2":
        text = f"goes with kind mirrormaker2 ({quoted(kind.text)})"
        yield Problem(wanted.mark, place, text)
    elif _scalar(document, (*path, "connectors", "source")) is None:
        yield Problem(wanted.mark, place, "needs `connectors: {source: NAME}` beside it")


def _copied_offsets(document: Document, path: Path, kind: Scalar | None) -> Iterator[Problem]:
    path = (*path, "copied_offsets_topic")
    copied = _scalar(document, path)
    if copied is None:
        return
    if kind and kind.text != "offset-preserving":
        text = f"goes with kind offset-preserving ({quoted(kind.text)})"
        yield Problem(copied.mark, path, text)
    if copied.text == "__consumer_offsets":
        yield Problem(copied.mark, path, "holds the target's own positions, not a copy")


def _fence(document: Document, path: Path) -> Iterator[Problem]:
    method = _scalar(document, (*path, "method"))
    if method is None:
        return
    for word, key in (("acl", "principals"), ("command", "command")):
        entry = document.entry((*path, key))
        filled = entry is not None and not _empty(entry.node)
        if method.text == word and not filled:
            yield Problem(method.mark, (*path, key), f"is required by method {word}")
        if method.text != word and entry and filled:
            text = f"goes with method {word} ({quoted(method.text)})"
            yield Problem(entry.mark, (*path, key), text)
    for key in ("undo", "verify"):
        entry = document.entry((*path, key))
        if method.text != "command" and entry and not _empty(entry.node):
            text = f"goes with method command ({quoted(method.text)})"
            yield Problem(entry.mark, (*path, key), text)


def _keys(document: Document, path: Path) -> list[str]:
    entry = document.entry(path)
    return list(entry.node.entries) if entry and isinstance(entry.node, Mapping) else []


def _scalar(document: Document, path: Path) -> Scalar | None:
    entry = document.entry(path)
    node = entry.node if entry else None
    return node if isinstance(node, Scalar) and node.value is not None else None


def _empty(node: Node) -> bool:
    if isinstance(node, Mapping):
        return not node.entries
    return not node.items if isinstance(node, Sequence) else node.value is None
