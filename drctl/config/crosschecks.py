"""Checks between values of a file; they run even if single values are wrong."""

import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address

from drctl.config.document import Document, Entry, Mapping, Scalar, Sequence, scalars
from drctl.config.endpoints import BOOTSTRAP, CLUSTER, domain_name
from drctl.config.fields import UNCHANGED
from drctl.config.problems import Path, Problem, did_you_mean, one_of, quoted

_SRV = re.compile(r"(\d{1,5}) (\d{1,5}) (\d{1,5}) (\S+)")


def problems(document: Document) -> Iterator[Problem]:
    """All combinations of values that are wrong."""
    for name in _entries(document, ("links",)):
        link = ("links", name)
        yield from _from_and_to(document, link)
        yield from _replicator(document, (*link, "replicator"))
        yield from _origin_header(document, link)
        yield from _source_connectors(document, (*link, "source_connectors"))
        yield from _fence(document, (*link, "fence"))
        yield from _endpoints(document, link)
    yield from _cluster(document, ("ledger", "cluster"))


def _cluster(document: Document, path: Path) -> Iterator[Problem]:
    node, clusters = _scalar(document, path), tuple(_entries(document, ("clusters",)))
    if node and clusters and node.text not in clusters:
        near = did_you_mean(node.text, clusters) or f"use {one_of(clusters)}"
        text = f"is not a cluster in this file; {near} ({quoted(node.text)})"
        yield Problem(node.mark, path, text)


def _from_and_to(document: Document, link: Path) -> Iterator[Problem]:
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
    """Refuse one cluster under two names: compared with itself, no record would be missing."""
    brokers = (_scalar(document, ("clusters", end.text, "bootstrap")) for end in (source, target))
    first, second = brokers
    if first and second and first.text == second.text:
        text = f"has the same bootstrap as {quoted(source.text)} in `from` ({quoted(target.text)})"
        yield Problem(target.mark, (*link, "to"), text)


def _replicator(document: Document, path: Path) -> Iterator[Problem]:
    kind = _scalar(document, (*path, "kind"))
    for side in (path, (*path, "reverse")):
        connectors = _filled(document, (*side, "connectors"))
        if connectors and not document.entry((*side, "connect")):
            yield Problem(connectors.mark, (*side, "connect"), "is required with `connectors`")
        yield from _access(document, side)
    for key in ("connect", "connectors", "reverse"):
        entry = _filled(document, (*path, key))
        if kind and kind.text == "none" and entry:
            text = "requires a replicator, but kind is none"
            yield Problem(entry.mark, (*path, key), text)
    yield from _stopped_by_command(document, path)
    yield from _started_after_failover(document, path, kind)
    yield from _copied_offsets(document, path, kind)


def _origin_header(document: Document, link: Path) -> Iterator[Problem]:
    """Require the same header on the opposite link: both links identify copies by it."""
    path = (*link, "origin_header")
    header = _scalar(document, path)
    if header is None:
        return
    rename, reverse = ((*link, "replicator", key) for key in ("rename", "reverse"))
    renamed, reversed_ = _scalar(document, rename), _filled(document, reverse)
    if renamed and renamed.text != UNCHANGED:
        text = "cannot be combined with `origin_header`: both links keep topic names"
        yield Problem(renamed.mark, rename, text)
    if reversed_:
        text = "cannot be combined with `origin_header`: the other link has the connectors"
        yield Problem(reversed_.mark, reverse, text)
    ends = tuple(_text(document, (*link, end)) for end in ("from", "to"))
    others = [("links", name) for name in _entries(document, ("links",))]
    if not any(
        tuple(_text(document, (*other, end)) for end in ("to", "from")) == ends
        and _text(document, (*other, "origin_header")) == header.text
        for other in others
    ):
        text = f"requires a link from {ends[1]} to {ends[0]} with the same `origin_header`"
        yield Problem(header.mark, path, f"{text} ({quoted(header.text)})")


def _access(document: Document, side: Path) -> Iterator[Problem]:
    path = (*side, "connect_access")
    given = _filled(document, path)
    if given and not document.entry((*side, "connect")):
        yield Problem(given.mark, (*side, "connect"), "is required with `connect_access`")
    for key, other in (
        ("password", "user"),
        ("user", "password"),
        ("key", "certificate"),
        ("key_password", "certificate"),
    ):
        entry = document.entry((*path, key))
        if entry and not document.entry((*path, other)):
            yield Problem(entry.mark, (*path, other), f"is required with `{key}`")


def _source_connectors(document: Document, path: Path) -> Iterator[Problem]:
    for side in ("from", "to"):
        yield from _access(document, (*path, side))
    listed = {scalar.text for _, scalar in _scalars(document, (*path, "names"))}
    there: dict[str, str] = {name: name for name in listed}
    for key in ("rename", "log_retention_hours"):
        for name, entry in _entries(document, (*path, key)).items():
            place = (*path, key, name)
            if listed and name not in listed:
                near = did_you_mean(name, tuple(sorted(listed))) or f"use {one_of(sorted(listed))}"
                yield Problem(entry.mark, place, f"is not among `names`; {near}")
            if key == "rename":
                there[name] = _text(document, place)
    for name, new in there.items():
        if other := next((o for o in there if o != name and there[o] == new), None):
            place = (*path, "rename", name if name != new else other)
            renamed = document.entry(place)
            if renamed and other > name:
                text = f"is the name of two connectors on the target's workers ({quoted(new)})"
                yield Problem(renamed.mark, place, text)


def _stopped_by_command(document: Document, path: Path) -> Iterator[Problem]:
    for key in ("stop", "start", "stopped"):
        entry = _filled(document, (*path, key))
        if entry is None:
            continue
        if _filled(document, (*path, "connectors")):
            text = "cannot be combined with `connectors`: drctl stops connectors itself"
            yield Problem(entry.mark, (*path, key), text)
        elif not _filled(document, (*path, "stop")):
            yield Problem(entry.mark, (*path, "stop"), f"is required with `{key}`")


def _started_after_failover(
    document: Document, path: Path, kind: Scalar | None
) -> Iterator[Problem]:
    """Require what drctl needs to set the start offsets; without them, all is replicated again."""
    path = (*path, "reverse")
    wanted = _scalar(document, (*path, "after_failover"))
    if wanted is None or wanted.value is not True:
        return
    place = (*path, "after_failover")
    if kind and kind.text != "mirrormaker2":
        text = f"requires kind mirrormaker2 ({quoted(kind.text)})"
        yield Problem(wanted.mark, place, text)
    elif _scalar(document, (*path, "connectors", "source")) is None:
        yield Problem(wanted.mark, place, "requires `connectors: {source: NAME}`")


def _copied_offsets(document: Document, path: Path, kind: Scalar | None) -> Iterator[Problem]:
    path = (*path, "copied_offsets_topic")
    copied = _scalar(document, path)
    if copied is None:
        return
    if kind and kind.text != "offset-preserving":
        text = f"requires kind offset-preserving ({quoted(kind.text)})"
        yield Problem(copied.mark, path, text)
    if copied.text == "__consumer_offsets":
        yield Problem(
            copied.mark,
            path,
            "must name the copy of the source's topic: this one holds the target's own offsets",
        )


def _fence(document: Document, path: Path) -> Iterator[Problem]:
    method = _scalar(document, (*path, "method"))
    if method is None:
        return
    for word, key in (("acl", "principals"), ("command", "command")):
        entry = _filled(document, (*path, key))
        if method.text == word and not entry:
            yield Problem(method.mark, (*path, key), f"is required by method {word}")
        if method.text != word and entry:
            text = f"requires method {word} ({quoted(method.text)})"
            yield Problem(entry.mark, (*path, key), text)
    for key, word in (("undo", "command"), ("verify", "command"), ("groups", "acl")):
        entry = _filled(document, (*path, key))
        if method.text != word and entry:
            text = f"requires method {word} ({quoted(method.text)})"
            yield Problem(entry.mark, (*path, key), text)


def _endpoints(document: Document, link: Path) -> Iterator[Problem]:
    """Wrong combinations in the endpoints of a link."""
    endpoints = document.entry((*link, "endpoints"))
    items = endpoints.node.items if endpoints and isinstance(endpoints.node, Sequence) else ()
    for number in range(len(items)):
        path = (*link, "endpoints", number)
        check = _CHECKS.get(_text(document, (*path, "kind")))
        if check is not None:
            yield from check(document, link, path)


def _dns(document: Document, link: Path, path: Path) -> Iterator[Problem]:
    yield from _clusters(document, link, (*path, "clusters"))
    yield from _within_zone(document, path)
    taken = _text(document, (*path, "type")) or "A"
    for place, scalar in _scalars(document, (*path, "clusters")):
        if taken in _DATA and not _is_data(taken, scalar.text):
            text = f"must be {_DATA[taken]} because type is {taken} ({quoted(scalar.text)})"
            yield Problem(scalar.mark, place, text)
    yield from _one_cluster_each(document, (*path, "clusters"), lambda texts: {frozenset(texts)})


def _within_zone(document: Document, path: Path) -> Iterator[Problem]:
    record = document.entry((*path, "record"))
    name, zone = (_text(document, (*path, key)) for key in ("record", "zone"))
    try:
        within = f".{domain_name(name)}".endswith(f".{domain_name(zone)}")
    except ValueError:
        return
    if record and not within:
        text = f"is not in the zone {quoted(zone)} ({quoted(name)})"
        yield Problem(record.node.mark, (*path, "record"), text)


def _haproxy(document: Document, link: Path, path: Path) -> Iterator[Problem]:
    yield from _one_of_two(document, path, "socket", "address")
    yield from _one_of_two(document, path, "servers", "addresses")
    for key in ("servers", "addresses"):
        yield from _clusters(document, link, (*path, key))
    yield from _one_cluster_each(document, (*path, "servers"), lambda texts: texts)
    yield from _same_names(document, (*path, "addresses"))


def _same_names(document: Document, path: Path) -> Iterator[Problem]:
    """Require the same servers for each cluster: otherwise a switch would not move all of them."""
    first: tuple[str, ...] | None = None
    for name, entry in _entries(document, path).items():
        names = tuple(sorted(_entries(document, (*path, name))))
        first = names if first is None else first
        if names != first:
            text = f"must name the same servers as the previous cluster: {', '.join(first)}"
            yield Problem(entry.mark, (*path, name), text)


def _file(document: Document, link: Path, path: Path) -> Iterator[Problem]:
    yield from _clusters(document, link, (*path, "clusters"), required=False)
    content = document.entry((*path, "content"))
    text = _text(document, (*path, "content"))
    if content and text and BOOTSTRAP not in text and CLUSTER not in text:
        message = (
            f"must contain {BOOTSTRAP} or {CLUSTER}: otherwise all clusters get the same content"
        )
        yield Problem(content.node.mark, (*path, "content"), message)
    entry = document.entry(path)
    for name in _ends(document, link):
        bootstrap = _text(document, ("clusters", name, "bootstrap"))
        given = name in _entries(document, (*path, "clusters"))
        if entry and "${" in bootstrap and not given:
            message = f"is required for {quoted(name)}: its bootstrap is a reference"
            yield Problem(entry.mark, (*path, "clusters"), message)
    yield from _one_cluster_each(document, (*path, "clusters"), lambda texts: texts)


def _command(document: Document, _link: Path, path: Path) -> Iterator[Problem]:
    entry = document.entry((*path, "argv"))
    words = [scalar.text for _, scalar in _scalars(document, (*path, "argv"))]
    if entry and words and not any(CLUSTER in word for word in words):
        yield Problem(entry.mark, (*path, "argv"), f"must contain {CLUSTER}")


def _clusters(
    document: Document, link: Path, path: Path, *, required: bool = True
) -> Iterator[Problem]:
    """Check names of clusters; with `required`, both clusters of the link must have an entry."""
    entry, known = document.entry(path), tuple(_entries(document, ("clusters",)))
    if entry is None or not isinstance(entry.node, Mapping):
        return
    for name, inner in entry.node.entries.items():
        if known and name not in known:
            near = did_you_mean(name, known) or f"use {one_of(known)}"
            yield Problem(inner.mark, (*path, name), f"is not a cluster in this file; {near}")
    missing = [name for name in _ends(document, link) if name not in entry.node.entries]
    if missing and required:
        yield Problem(entry.mark, path, f"has no entry for {' and '.join(map(quoted, missing))}")


def _one_cluster_each(
    document: Document, path: Path, marks_of: Callable[[set[str]], set[str] | set[frozenset[str]]]
) -> Iterator[Problem]:
    """Refuse values that two clusters share: they would not show which cluster is meant."""
    seen: dict[str | frozenset[str], str] = {}
    for name, entry in _entries(document, path).items():
        texts = {scalar.text for _, scalar in _scalars(document, (*path, name))}
        for mark in marks_of(texts) if texts else ():
            if mark in seen:
                text = (
                    f"cannot be distinguished from {quoted(seen[mark])}: both have {_listed(mark)}"
                )
                yield Problem(entry.mark, (*path, name), text)
            seen.setdefault(mark, name)


def _listed(mark: str | frozenset[str]) -> str:
    return quoted(mark) if isinstance(mark, str) else ", ".join(map(quoted, sorted(mark)))


def _one_of_two(document: Document, path: Path, one: str, other: str) -> Iterator[Problem]:
    first, second, whole = (document.entry(p) for p in ((*path, one), (*path, other), path))
    if first and second:
        yield Problem(
            second.mark, (*path, other), f"cannot be combined with `{one}`: remove one of them"
        )
    elif whole and not first and not second:
        yield Problem(whole.mark, (*path, one), f"`{one}` or `{other}` is required")


def _is_data(kind: str, text: str) -> bool:
    try:
        if kind in ("A", "AAAA"):
            (IPv4Address if kind == "A" else IPv6Address)(text)
        elif kind == "CNAME":
            domain_name(text)
        else:
            match = _SRV.fullmatch(text)
            domain_name(match[4] if match else "")
            return bool(match and all(int(match[n]) < 65536 for n in (1, 2, 3)))
    except ValueError:
        return False
    return True


_DATA = {
    "A": "an IPv4 address",
    "AAAA": "an IPv6 address",
    "CNAME": "a domain name",
    "SRV": "PRIORITY WEIGHT PORT NAME",
}
_CHECKS = {"dns": _dns, "haproxy": _haproxy, "file": _file, "command": _command}


def _ends(document: Document, link: Path) -> list[str]:
    known = _entries(document, ("clusters",))
    ends = (_text(document, (*link, end)) for end in ("from", "to"))
    return [name for name in ends if name in known]


def _entries(document: Document, path: Path) -> dict[str, Entry]:
    entry = document.entry(path)
    return entry.node.entries if entry and isinstance(entry.node, Mapping) else {}


def _text(document: Document, path: Path) -> str:
    entry = document.entry(path)
    return entry.node.text if entry and isinstance(entry.node, Scalar) else ""


def _scalars(document: Document, path: Path) -> Iterator[tuple[Path, Scalar]]:
    """All single texts at or below a place."""
    entry = document.entry(path)
    found = scalars(entry.node, path) if entry else ()
    return ((place, each) for place, each in found if isinstance(each.value, str))


def _scalar(document: Document, path: Path) -> Scalar | None:
    entry = document.entry(path)
    node = entry.node if entry else None
    return node if isinstance(node, Scalar) and node.value is not None else None


def _filled(document: Document, path: Path) -> Entry | None:
    """The entry at this path, unless it is empty."""
    entry = document.entry(path)
    match entry.node if entry else None:
        case Mapping(entries=inside) | Sequence(items=inside):
            return entry if inside else None
        case Scalar(value=value):
            return None if value is None else entry
    return None
