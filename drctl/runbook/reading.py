"""Reads and lists runbook files, and checks everything that does not depend on parameters."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from drctl import resources
from drctl.config import document as tree
from drctl.config.document import Document, Node, file_text, scalars
from drctl.config.problems import Mark, Problem, config_error, did_you_mean, one_of, quoted
from drctl.config.problems import Path as Place
from drctl.config.schema_errors import at_key, at_value, none_of, problems_of
from drctl.model.errors import ConfigError, UsageError
from drctl.model.loss import Mode
from drctl.plans.failback import NAME
from drctl.runbook import when
from drctl.runbook.schema import ACTION_KEYS, KEYS, ParameterConfig, RunbookFile, StepConfig
from drctl.runbook.specs import SPECS
from drctl.runbook.values import LINK_NAMES, PATTERNS, from_yaml, holds_secret_reference, references
from drctl.steps.prechecks import Preflight

FOLDER = "runbooks"

FILLED = frozenset({"with", "timeout", "expect", "by_hand", *ACTION_KEYS[1:]})
"""The keys of a step whose values may refer to parameters."""


@dataclass(frozen=True, slots=True)
class Runbook:
    """A well-formed runbook file, before its parameters have values.

    Attributes:
        conditions: the `when` of steps, by the number of the step.
        document: the position of everything in the file.
    """

    path: Path
    file: RunbookFile
    fingerprint: str
    conditions: Mapping[int, when.Expression] = field(default_factory=dict)
    document: Document = field(default_factory=Document, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name of the runbook."""
        return self.file.name

    @property
    def is_failback(self) -> bool:
        """Whether it fails back over its link: from its target to its source."""
        return any(_sequence(step) == NAME for step in self.file.steps)

    @property
    def abandons_source(self) -> bool:
        """Whether it includes an unplanned failover, so the source is probably down."""
        return any(_is_unplanned(step) for step in self.file.steps)


def _is_unplanned(step: StepConfig) -> bool:
    settings = step.with_ if isinstance(step.with_, Mapping) else {}
    preflight = step.step == Preflight.name and settings.get("mode") == Mode.UNPLANNED
    return preflight or _sequence(step) == f"failover-{Mode.UNPLANNED}"


def _sequence(step: StepConfig) -> Any:
    """The name of the step's sequence, if it has one."""
    given = step.sequence
    return given.get("name") if isinstance(given, Mapping) else given


def load(path: Path) -> Runbook:
    """Read a runbook file.

    Raises:
        ConfigError: it cannot be read, or has errors; lists all of them.
    """
    return read(file_text(path), path)


def read(text: str, path: Path) -> Runbook:
    """Read the text of a runbook file.

    Raises:
        ConfigError: it has errors; lists all of them.
    """
    runbook, problems = parse_runbook(text, path)
    if runbook is None or problems:
        raise config_error(str(path), problems)
    return runbook


def parse_runbook(text: str, path: Path) -> tuple[Runbook | None, list[Problem]]:
    """The runbook, or None if the text does not fit the schema, and all problems."""
    document = tree.parse(text)
    problems = list(document.problems)
    if document.root is None:
        if not problems:
            problems.append(Problem(Mark(1, 1), (), "is empty"))
        return None, problems
    problems += _unprintable(document.root)
    try:
        file = RunbookFile.model_validate(_raw(document.root))
    except ValidationError as error:
        return None, problems + list(problems_of(error, document, _known, PATTERNS))
    conditions, invalid = _conditions(file, document, text)
    if path.stem != file.name:
        problem = f"must be the name of the file: {quoted(path.stem)}"
        problems.append(at_value(document, ("name",), problem))
    problems += [*_parameters(file, document), *_steps(file, document), *invalid]
    problems += _references(file, document)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Runbook(path, file, digest, conditions, document), problems


def _raw(node: Node) -> Any:
    if isinstance(node, tree.Mapping):
        found = {key: _raw(entry.node) for key, entry in node.entries.items()}
        # A key without a value, for example if its lines are commented out, counts as absent.
        return {key: value for key, value in found.items() if value is not None}
    if isinstance(node, tree.Sequence):
        return tuple(_raw(item) for item in node.items)
    return node.value


def _known(loc: Place) -> tuple[str, ...]:
    return KEYS[str(loc[0])] if len(loc) > 1 else KEYS[""]


def _unprintable(root: Node) -> Iterator[Problem]:
    """Characters that could manipulate a terminal or a page."""
    for place, scalar in scalars(root, ()):
        for char in scalar.text.replace("\n", ""):
            if not char.isprintable():
                text = f"holds the character {quoted(char)}, which cannot be shown"
                yield Problem(scalar.mark, place, text)
                break


def _parameters(file: RunbookFile, document: Document) -> Iterator[Problem]:
    for name, parameter in file.parameters.items():
        path = ("parameters", name)
        if name in LINK_NAMES:
            yield at_key(document, path, "is predefined in every runbook and cannot be a parameter")
        if parameter.type == "choice" and not parameter.choices:
            yield at_key(document, (*path, "choices"), "is required by type choice")
            continue
        if parameter.type != "choice" and parameter.choices:
            yield at_key(
                document,
                (*path, "choices"),
                (f"is allowed only with type choice, not {parameter.type}"),
            )
        yield from _default(parameter, path, document)


def _default(parameter: ParameterConfig, path: Place, document: Document) -> Iterator[Problem]:
    if parameter.default is None:
        return
    try:
        from_yaml(parameter, parameter.default)
    except ValueError as error:
        problem = str(error).removesuffix(f" ({quoted(str(parameter.default))})")
        yield at_value(document, (*path, "default"), problem)


def _steps(file: RunbookFile, document: Document) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for number, step in enumerate(file.steps):
        path = ("steps", number)
        if step.id in seen:
            entry = document.entry(("steps", seen[step.id], "id"))
            line = entry.mark.line if entry else 0
            yield at_value(document, (*path, "id"), f"is used twice, first on line {line}")
        seen.setdefault(step.id, number)
        yield from _kind(step, path, document)


def _kind(step: StepConfig, path: Place, document: Document) -> Iterator[Problem]:
    used = [key for key in ACTION_KEYS if getattr(step, key) is not None]
    if len(used) != 1:
        text = f"does nothing: it needs {one_of(ACTION_KEYS)}"
        if used:
            text = f"has {' and '.join(used)}: use only one"
        yield at_key(document, path, text)
        return
    if step.with_ is not None and used != ["step"]:
        yield at_key(document, (*path, "with"), f"is allowed only with step, not with {used[0]}")
    if step.step is not None and step.step not in SPECS:
        text = none_of(step.step, tuple(sorted(SPECS)), "kind of step")
        yield at_value(document, (*path, "step"), text)
    if used == ["sequence"]:
        if any(references(str(_sequence(step) or ""))):
            yield at_key(document, (*path, "sequence"), "must be a literal, not a parameter")
        for key in ("duty", "timeout"):
            if getattr(step, key) is not None:
                text = "is allowed only with a single step, not with a sequence"
                yield at_key(document, (*path, key), text)


def _conditions(
    file: RunbookFile, document: Document, text: str
) -> tuple[dict[int, when.Expression], list[Problem]]:
    found: dict[int, when.Expression] = {}
    problems = []
    for number, step in enumerate(file.steps):
        if step.when is None:
            continue
        try:
            found[number] = when.parse(step.when)
        except when.InvalidCondition as error:
            path = ("steps", number, "when")
            mark = _character_mark(document, path, step.when, error.at, text)
            problems.append(Problem(mark, path, f"{error} (character {error.at + 1})"))
    return found, problems


def _character_mark(document: Document, path: Place, value: str, at: int, text: str) -> Mark:
    """The position of a character of a value; of the whole value if it spans several lines."""
    entry = document.entry(path)
    assert entry is not None, path
    mark = entry.node.mark
    start = text.splitlines()[mark.line - 1].find(value, mark.column - 1)
    return Mark(mark.line, start + at + 1) if start >= 0 else mark


def _references(file: RunbookFile, document: Document) -> Iterator[Problem]:
    declared, used = (*file.parameters, *LINK_NAMES), set[str]()
    for path, scalar in scalars(document.root, ()) if document.root else ():
        names = [*references(scalar.text)]
        fillable = path[:1] == ("steps",) and len(path) > 2 and path[2] in FILLED
        used.update(names if fillable else ())
        for name in names:
            text = (
                f"parameters are allowed only in these keys of a step: {', '.join(sorted(FILLED))}"
            )
            if name.startswith("${"):
                text = "'${' is not closed (write '$${' for a literal one)"
            elif fillable and name not in declared:
                near = did_you_mean(name, declared)
                text = f"{quoted(name)} is not a parameter{'; ' if near else ''}{near}"
            if not fillable or name not in declared:
                yield Problem(scalar.mark, path, text)
        if holds_secret_reference(scalar.text) and "env" not in path[3:]:
            text = "must not refer to ${env:...} or ${file:...}: plans and journals record it"
            yield Problem(scalar.mark, path, text)
    for name in file.parameters:
        if name not in used:
            yield at_key(document, ("parameters", name), "is not used by any step")


@dataclass(frozen=True, slots=True)
class Listed:
    """A runbook in a list.

    Attributes:
        about: the first sentence of its description; empty if the file is not a runbook.
        own: whether it is user-supplied, not built in.
        replaced: whether a user-supplied runbook of the same name runs instead.
        valid: whether it is valid; `drctl runbook lint` reports why not.
    """

    name: str
    path: Path
    about: str
    own: bool
    replaced: bool = False
    valid: bool = True


def listing(own: Path | None = None) -> tuple[Listed, ...]:
    """All runbooks by name; of the same name, the user-supplied one first.

    Args:
        own: the folder of user-supplied runbooks.

    Raises:
        ConfigError: the folder does not exist.
    """
    supplied = _paths(own) if own else {}
    found = [_listed(path, own=True) for path in supplied.values()]
    for name, path in _paths(resources.shipped(FOLDER)).items():
        found.append(_listed(path, own=False, replaced=name in supplied))
    return tuple(sorted(found, key=lambda each: (each.name, not each.own)))


def files(folder: Path) -> tuple[Path, ...]:
    """The runbooks in a folder.

    Raises:
        ConfigError: the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"not a directory: {folder}", "set `runbooks` in drctl.yaml to a directory"
        )
    return tuple(sorted(folder.glob("*.yaml")))


def find(name: str, own: Path | None = None) -> Runbook:
    """Read the runbook of this name; a user-supplied one replaces a built-in one.

    Raises:
        UsageError: there is none.
        ConfigError: it has errors, or the folder of user-supplied runbooks does not exist.
    """
    known = _known_paths(own)
    if name not in known:
        near = did_you_mean(name, tuple(known)) or f"available: {one_of(tuple(sorted(known)))}"
        raise UsageError(f"there is no runbook {quoted(name)}", near)
    return load(known[name])


def find_file(name: str, own: Path | None = None) -> Path:
    """The file of a runbook, or of a page of instructions that ships beside the runbooks.

    Raises:
        UsageError: there is none.
        ConfigError: the runbook has errors, or the folder of user-supplied ones does not exist.
    """
    pages = {path.stem: path for path in resources.shipped(FOLDER).glob("*.md")}
    return pages[name] if name in pages.keys() - _known_paths(own) else find(name, own).path


def _known_paths(own: Path | None) -> dict[str, Path]:
    return {**_paths(resources.shipped(FOLDER)), **(_paths(own) if own else {})}


def _paths(folder: Path) -> dict[str, Path]:
    return {path.stem: path for path in files(folder)}


def _listed(path: Path, *, own: bool, replaced: bool = False) -> Listed:
    try:
        runbook, problems = parse_runbook(file_text(path), path)
    except ConfigError:
        runbook, problems = None, []
    text = " ".join(runbook.file.about.split()) if runbook else ""
    about = text.split(". ")[0].rstrip(".")
    return Listed(path.stem, path, about, own, replaced, runbook is not None and not problems)
