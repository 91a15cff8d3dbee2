"""What must hold between the values of an endpoint, and between them and the clusters."""

import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address

from drctl.config.document import Document, Entry, Mapping, Node, Scalar, Sequence
from drctl.config.endpoints import BOOTSTRAP, CLUSTER, domain_name
from drctl.config.problems import Path, Problem, did_you_mean, one_of, quoted

_SRV = re.compile(r"(\d{1,5}) (\d{1,5}) (\d{1,5}) (\S+)")


def problems(document: Document, link: Path) -> Iterator[Problem]:
    """What does not go together in the endpoints of a link."""
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
            text = f"must be {_DATA[taken]}, for the type is {taken} ({quoted(scalar.text)})"
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
    """Every cluster must say where each server is, or a switch would leave some where they were."""
    first: tuple[str, ...] | None = None
    for name, entry in _entries(document, path).items():
        names = tuple(sorted(_entries(document, (*path, name))))
        first = names if first is None else first
        if names != first:
            text = f"must name the servers that the cluster before it names: {', '.join(first)}"
            yield Problem(entry.mark, (*path, name), text)


def _file(document: Document, link: Path, path: Path) -> Iterator[Problem]:
    yield from _clusters(document, link, (*path, "clusters"), required=False)
    content = document.entry((*path, "content"))
    text = _text(document, (*path, "content"))
    if content and text and BOOTSTRAP not in text and CLUSTER not in text:
        said = f"must contain {BOOTSTRAP} or {CLUSTER}, or it would say the same of all clusters"
        yield Problem(content.node.mark, (*path, "content"), said)
    entry = document.entry(path)
    for name in _ends(document, link):
        bootstrap = _text(document, ("clusters", name, "bootstrap"))
        given = name in _entries(document, (*path, "clusters"))
        if entry and "${" in bootstrap and not given:
            said = f"is required for {quoted(name)}, whose bootstrap refers to something else"
            yield Problem(entry.mark, (*path, "clusters"), said)
    yield from _one_cluster_each(document, (*path, "clusters"), lambda texts: texts)


def _command(document: Document, _link: Path, path: Path) -> Iterator[Problem]:
    entry = document.entry((*path, "argv"))
    words = [scalar.text for _, scalar in _scalars(document, (*path, "argv"))]
    if entry and words and not any(CLUSTER in word for word in words):
        yield Problem(entry.mark, (*path, "argv"), f"must contain {CLUSTER}")


def _clusters(
    document: Document, link: Path, path: Path, *, required: bool = True
) -> Iterator[Problem]:
    """Names of clusters of the file; where required, with both ends of the link."""
    entry, known = document.entry(path), tuple(_entries(document, ("clusters",)))
    if entry is None or not isinstance(entry.node, Mapping):
        return
    for name, inner in entry.node.entries.items():
        if known and name not in known:
            near = did_you_mean(name, known) or f"there are {one_of(known)}"
            yield Problem(inner.mark, (*path, name), f"is no cluster of this file; {near}")
    missing = [name for name in _ends(document, link) if name not in entry.node.entries]
    if missing and required:
        yield Problem(entry.mark, path, f"has nothing for {' and '.join(map(quoted, missing))}")


def _one_cluster_each(
    document: Document, path: Path, told_by: Callable[[set[str]], set[str] | set[frozenset[str]]]
) -> Iterator[Problem]:
    """What two clusters share would not tell which of them is meant."""
    seen: dict[str | frozenset[str], str] = {}
    for name, entry in _entries(document, path).items():
        texts = {scalar.text for _, scalar in _scalars(document, (*path, name))}
        for mark in told_by(texts) if texts else ():
            if mark in seen:
                text = f"cannot be told from {quoted(seen[mark])}: both have {_listed(mark)}"
                yield Problem(entry.mark, (*path, name), text)
            seen.setdefault(mark, name)


def _listed(mark: str | frozenset[str]) -> str:
    return quoted(mark) if isinstance(mark, str) else ", ".join(map(quoted, sorted(mark)))


def _one_of_two(document: Document, path: Path, one: str, other: str) -> Iterator[Problem]:
    first, second, whole = (document.entry(p) for p in ((*path, one), (*path, other), path))
    if first and second:
        yield Problem(second.mark, (*path, other), f"does not go with `{one}`: give one of them")
    elif whole and not first and not second:
        yield Problem(whole.mark, (*path, one), f"is required, or `{other}`")


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
    return _texts_of(entry.node, path) if entry else iter(())


def _texts_of(node: Node, path: Path) -> Iterator[tuple[Path, Scalar]]:
    if isinstance(node, Mapping):
        for name, entry in node.entries.items():
            yield from _texts_of(entry.node, (*path, name))
    elif isinstance(node, Sequence):
        for number, item in enumerate(node.items):
            yield from _texts_of(item, (*path, number))
    elif isinstance(node.value, str):
        yield path, node
