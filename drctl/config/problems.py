"""Problems in a configuration file, each with its place, reported as one error."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from drctl.model.errors import ConfigError
from drctl.model.text import lines, option

Path = tuple[str | int, ...]
_LONGEST_VALUE = 60


class Mark(NamedTuple):
    """A place in a text; both numbers start at 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One problem.

    Attributes:
        path: keys and list positions from the top of the file; empty for the file itself.
        text: the message, with the value unless it is a secret.
    """

    mark: Mark
    path: Path
    text: str


def dotted(path: Path) -> str:
    """`links.main.topics[0]`."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{escaped(part)}" for part in path]
    return "".join(parts).removeprefix(".")


def located(file: str, mark: Mark, path: Path) -> str:
    """`FILE:LINE:COLUMN: path.to.field`, the head of every message about a file."""
    head = f"{file}:{mark.line}:{mark.column}"
    return f"{head}: {dotted(path)}" if path else head


def config_error(file: str, problems: Iterable[Problem], hint: str = "") -> ConfigError:
    """All problems in the order of the file, a line each."""
    ordered = sorted(set(problems), key=lambda p: (p.mark, dotted(p.path), p.text))
    messages = [f"{located(file, p.mark, p.path)}: {p.text}" for p in ordered]
    if len(messages) > 1:
        messages.insert(0, f"{len(messages)} problems in {file}")
    return ConfigError(lines(messages), hint)


def did_you_mean(word: str, known: Sequence[str], *, cutoff: float = 0.6) -> str:
    """`did you mean 'x'?`; empty if no known word is similar."""
    near = get_close_matches(word, known, n=1, cutoff=cutoff)
    return f"did you mean {quoted(near[0])}?" if near else ""


def one_of(words: Sequence[str]) -> str:
    """`'a', 'b' or 'c'`."""
    shown = [quoted(word) for word in words]
    return " or ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def to_add(name: str, values: Sequence[str]) -> str:
    """The option with each of its possible values, to be pasted."""
    return "add " + " or ".join(option(name, value) for value in values)


def escaped(text: str) -> str:
    """A text inside a message: one line, not long, no control characters."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= _LONGEST_VALUE else shown[:_LONGEST_VALUE] + "..."


def quoted(text: str) -> str:
    """A text inside a message, escaped and in quotes."""
    return f"'{escaped(text)}'"
