"""Parses YAML into a tree with the place of every key and value.

The YAML is only composed, never constructed: no tag can create an object.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import yaml

from drctl.config.problems import Mark, Path, Problem, config_error, quoted
from drctl.model.errors import ConfigError

_PREFIX = "tag:yaml.org,2002:"
_TYPED = frozenset(_PREFIX + kind for kind in ("bool", "int", "float", "null"))
_MERGE = _PREFIX + "merge"
# Aliases share nodes: a small file can expand to any size ("billion laughs").
_MOST_NODES = 20_000
_DEEPEST = 32
_LARGEST = 2**63 - 1
# The parser may quote part of a password, as in `password: *abc` or `!abc`.
_QUOTED = re.compile(r"(['\"])(.*?)\1")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value.

    Attributes:
        text: as written, without quotes.
        value: as YAML parses it: text, bool, int, float or None.
    """

    mark: Mark
    text: str
    value: str | bool | int | float | None


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    mark: Mark
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value; the mark is the key's."""

    mark: Mark
    node: "Node"


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values; of duplicate keys, only the first."""

    mark: Mark
    entries: dict[str, Entry]


Node = Scalar | Sequence | Mapping


@dataclass(slots=True)
class Document:
    """A parsed file.

    Attributes:
        root: None for an empty file and for invalid YAML.
        problems: invalid YAML, duplicate keys, tags and the like.
    """

    root: Node | None = None
    problems: list[Problem] = field(default_factory=list)

    def entry(self, path: Path) -> Entry | None:
        """The entry at a path, with the place of its key or list item."""
        if self.root is None:
            return None
        here = Entry(self.root.mark, self.root)
        for part in path:
            found = _child(here.node, part)
            if found is None:
                return None
            here = found
        return here


def file_text(path: FilePath) -> str:
    """Read a file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode().split("\n")
        mark = Mark(len(before), len(before[-1]) + 1)
        raise config_error(str(path), [Problem(mark, (), "is not UTF-8 text")]) from None


def parse(text: str) -> Document:
    """Parse a text; problems are collected, not raised."""
    document = Document()
    try:
        node = yaml.SafeLoader(text).get_single_node()
        document.root = _TreeBuilder(document.problems).node(node, ()) if node else None
    except yaml.reader.ReaderError as error:
        document.problems.append(_unreadable(text, error))
    except yaml.MarkedYAMLError as error:
        document.problems.append(_syntax(error))
    except (RecursionError, _TooLarge):
        document.problems.append(Problem(Mark(1, 1), (), "is nested too deeply or too large"))
    return document


class _TooLarge(Exception):
    """The tree is too large for a configuration."""


@dataclass(slots=True)
class _TreeBuilder:
    problems: list[Problem]
    count: int = 0

    def node(self, node: yaml.Node, path: Path) -> Node:
        self.count += 1
        if self.count > _MOST_NODES or len(path) > _DEEPEST:
            raise _TooLarge
        mark = _mark(node.start_mark)
        if not node.tag.startswith(_PREFIX) or "python" in node.tag:
            self.problems.append(
                Problem(mark, path, "tags (words that begin with !) are not supported")
            )
        if isinstance(node, yaml.ScalarNode):
            return Scalar(mark, node.value, _value(node))
        if isinstance(node, yaml.SequenceNode):
            items = (self.node(item, (*path, i)) for i, item in enumerate(node.value))
            return Sequence(mark, tuple(items))
        return Mapping(mark, self.entries(node, path))

    def entries(self, node: yaml.Node, path: Path) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        merged: list[dict[str, Entry]] = []
        for key, value in node.value:
            mark = _mark(key.start_mark)
            if key.tag == _MERGE:
                merged.extend(self.merged(value, path))
            elif not isinstance(key, yaml.ScalarNode):
                self.problems.append(Problem(mark, path, "a key must be a single value"))
            elif key.value in found:
                first = found[key.value].mark
                text = f"is a duplicate key; the first is on line {first.line}"
                self.problems.append(Problem(mark, (*path, key.value), text))
                self.node(value, (*path, key.value))
            else:
                found[key.value] = Entry(mark, self.node(value, (*path, key.value)))
        for entries in merged:
            found = {**entries, **found}
        return found

    def merged(self, value: yaml.Node, path: Path) -> Iterator[dict[str, Entry]]:
        sources = value.value if isinstance(value, yaml.SequenceNode) else [value]
        for source in sources:
            if isinstance(source, yaml.MappingNode):
                yield self.entries(source, path)
            else:
                mark = _mark(value.start_mark)
                self.problems.append(
                    Problem(mark, path, "<< requires a mapping, for example *an-alias")
                )


def scalars(node: Node, path: Path) -> Iterator[tuple[Path, Scalar]]:
    """All single values at or below a path."""
    if isinstance(node, Mapping):
        for name, entry in node.entries.items():
            yield from scalars(entry.node, (*path, name))
    elif isinstance(node, Sequence):
        for number, item in enumerate(node.items):
            yield from scalars(item, (*path, number))
    else:
        yield path, node


def _child(node: Node, part: str | int) -> Entry | None:
    if isinstance(node, Mapping) and isinstance(part, str):
        return node.entries.get(part)
    if isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
        return Entry(node.items[part].mark, node.items[part])
    return None


def _value(node: yaml.ScalarNode) -> str | bool | int | float | None:
    if node.tag not in _TYPED:
        return str(node.value)
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
    except (ValueError, LookupError):  # a tag that does not fit, such as `!!int ''`
        return str(node.value)
    # Python refuses to print very long integers.
    if isinstance(value, int) and abs(value) > _LARGEST:
        return str(node.value)
    return value if value is None or isinstance(value, bool | int | float) else str(node.value)


def _mark(mark: yaml.Mark) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _syntax(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    message = _QUOTED.sub(_keep_token, error.problem or "cannot be read")
    if "alias" in message:
        message = "a value that begins with * is an alias of a missing anchor; put it in quotes"
    elif "tag handle" in message:
        message = "a value that begins with ! is a tag; put it in quotes"
    elif r"'\t'" in message:
        message = "tabs are not allowed for indentation; use spaces"
    elif "another document" in message:
        message = "the file must contain only one document"
    elif error.context_mark and mark and error.context_mark.line != mark.line:
        message += f" ({error.context}, started on line {error.context_mark.line + 1})"
    return Problem(_mark(mark) if mark else Mark(1, 1), (), f"is not valid YAML: {message}")


def _keep_token(match: re.Match[str]) -> str:
    """Keep punctuation and `<token names>`; any other quoted text may be a secret."""
    word = match[2]
    token = len(word) <= 2 or (word.startswith("<") and word.endswith(">"))
    return match[0] if token else "..."


def _unreadable(text: str, error: yaml.reader.ReaderError) -> Problem:
    before = text[: error.position].split("\n")
    message = f"the character {quoted(text[error.position])} is not allowed"
    return Problem(Mark(len(before), len(before[-1]) + 1), (), f"is not valid YAML: {message}")
