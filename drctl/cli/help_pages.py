"""Help pages, and the reference of all commands; both are generated from the commands."""

import inspect
import re
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TextIO

from drctl.cli.options import Output, options, shared_parameters
from drctl.cli.terminal import bold, cyan, wants_color

WIDTH = 100
"""Maximum width of help pages."""

_NAME_COLUMN = 30
_SECTION = re.compile(r"^(Examples|Exit codes):\n((?: {4}.*(?:\n|$))+)", re.MULTILINE)
_CODE = re.compile(r"^(\d+): ")

# Contexts, parameters and commands are Any: they are classes of the Click that Typer vendors.


@dataclass(frozen=True, slots=True)
class ParameterReference:
    """An option or an argument.

    Attributes:
        names: `-o, --output`, or the name of an argument.
        value: placeholder or choices, `FILE` or `text|json`; empty for a flag or an argument.
        default: in words or as typed; empty if there is none.
    """

    names: str
    value: str
    text: str
    default: str = ""
    required: bool = False

    @property
    def row(self) -> tuple[str, str]:
        """The two columns of a help page."""
        more = f"[default: {self.default}]" if self.default else "[required]" * self.required
        return f"{self.names} {self.value}".strip(), f"{self.text} {more}".strip()


@dataclass(frozen=True, slots=True)
class CommandReference:
    """The content of a command's help page.

    Attributes:
        path: `drctl offsets apply`.
        description: paragraphs after the summary.
        examples: command lines that can be pasted.
        exit_codes: the meaning of each code that the command defines more precisely.
        commands: subcommands with their summaries, by panel.
    """

    path: str
    usage: str
    summary: str
    description: tuple[str, ...]
    examples: tuple[str, ...]
    exit_codes: tuple[tuple[str, str], ...]
    arguments: tuple[ParameterReference, ...]
    options: tuple[ParameterReference, ...]
    global_options: tuple[ParameterReference, ...]
    commands: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)


def help_page(command: Any, context: Any, stream: TextIO) -> str:
    """Return what --help prints: text, or a document with --output json."""
    about = reference_of(command, context)
    if options().output is Output.JSON:
        import json

        from drctl.views.command_documents import HelpDocument

        text = "\n".join(_page(about, WIDTH, color=False))
        return json.dumps(HelpDocument(command=about.path, text=text).to_json())
    width = max(50, min(WIDTH, shutil.get_terminal_size().columns))
    return "\n".join(_page(about, width, color=wants_color(stream, options())))


def reference() -> Iterator[CommandReference]:
    """Yield all commands with their options, `drctl` itself first."""
    import typer

    from drctl.cli.main import app

    root = typer.main.get_command(app)
    with typer.Context(root, info_name="drctl", **root.context_settings) as context:
        yield from _below(root, context)


def _below(command: Any, context: Any) -> Iterator[CommandReference]:
    yield reference_of(command, context)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        inner = command.get_command(context, name)
        for path in (name, *(f"{name} {more}" for more in getattr(inner, "subcommands", ()))):
            each = command.get_command(context, path)
            with type(context)(each, info_name=path, parent=context) as below:
                yield from _below(each, below)


def reference_of(command: Any, context: Any) -> CommandReference:
    """Return the content of a command's help page."""
    text, sections = _sections(command.help)
    first, *more = text.split("\n\n")
    arguments, own, shared = _parameters(command, context)
    takes = [_argument_usage(p) for p in command.params if p.param_type_name == "argument"]
    words = ["[OPTIONS]", *takes, *(["COMMAND"] if hasattr(command, "list_commands") else [])]
    codes = (_CODE.split(line, maxsplit=1) for line in sections.get("Exit codes", ()))
    return CommandReference(
        context.command_path,
        f"{context.command_path} {' '.join(words)}",
        first.replace("\n", " ").rstrip("."),
        tuple(each.replace("\n", " ") for each in more),
        sections.get("Examples", ()),
        tuple((code, meaning) for _, code, meaning in codes),
        arguments,
        own,
        shared,
        command.panels(context),
    )


def summary(text: str | None) -> str:
    """Return the first sentence of a help text."""
    return _sections(text)[0].split("\n\n")[0].replace("\n", " ").rstrip(".")


def _sections(text: str | None) -> tuple[str, Mapping[str, tuple[str, ...]]]:
    """Split a docstring into its prose and the lines of its sections."""
    whole = inspect.cleandoc(text or "")
    found = {}
    for title, lines in _SECTION.findall(whole):
        found[title] = tuple(_joined(lines.splitlines()))
    return _SECTION.sub("", whole).strip(), found


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Join lines that are indented further to the line before."""
    whole = ""
    for line in lines:
        if whole and line.startswith(" " * 5):
            whole += f" {line.strip()}"
            continue
        if whole:
            yield whole
        whole = line.strip()
    if whole:
        yield whole


def _parameters(command: Any, context: Any) -> tuple[tuple[ParameterReference, ...], ...]:
    """Return arguments, options and global options."""
    arguments, own, shared = [], [], []
    for param in command.get_params(context):
        if param.hidden:
            continue
        described = _parameter(param, context)
        if param.param_type_name == "argument":
            arguments.append(described)
        elif param in shared_parameters() or param.opts[0] in context.help_option_names:
            shared.append(described)
        else:
            own.append(described)
    return tuple(arguments), tuple(own), tuple(shared)


def _parameter(param: Any, context: Any) -> ParameterReference:
    text, default = param.help or "", _default(param, context)
    if param.param_type_name == "argument":
        return ParameterReference(_display_name(param), "", text, default, param.required)
    flag = param.is_flag
    value = "" if flag else param.metavar or "|".join(_choices(param))
    names = ", ".join(sorted(param.opts, key=len))
    return ParameterReference(names, value, text, "" if flag else default, param.required)


def _choices(param: Any) -> Iterable[str]:
    choices = param.type_descriptor.choices or ()
    return (str(each.value if isinstance(each, Enum) else each) for each in choices)


def _default(param: Any, context: Any) -> str:
    if isinstance(param.show_default, str):
        return param.show_default
    value = param.get_default(context, call=False)
    if param.required or value is None or value == [] or not param.show_default:
        return ""
    return str(value.value if isinstance(value, Enum) else value)


def _display_name(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _argument_usage(param: Any) -> str:
    name = _display_name(param)
    return f"{name if param.required else f'[{name}]'}{'...' if param.nargs != 1 else ''}"


def _page(about: CommandReference, width: int, *, color: bool) -> Iterator[str]:
    heading = bold if color else str
    yield f"{heading('Usage:')} {about.usage}"
    for paragraph in (f"{about.summary}.", *about.description):
        yield ""
        yield from textwrap.wrap(
            paragraph, width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
    if about.examples:
        yield f"\n{heading('Examples:')}"
        for line in about.examples:
            yield from _folded(line, width)
    names = [len(name) for rows in about.commands.values() for name, _ in rows]
    for title, rows in about.commands.items():
        if rows:
            yield f"\n{heading(f'{title}:')}"
            yield from _table(rows, width, cyan if color else str, max(names))
    lists: dict[str, Sequence[tuple[str, str]]] = {
        "Arguments": [each.row for each in about.arguments],
        "Options": [each.row for each in about.options],
        "Global options": [each.row for each in about.global_options],
        "Exit codes": about.exit_codes,
    }
    for title, rows in lists.items():
        if rows:
            yield f"\n{heading(f'{title}:')}"
            yield from _table(rows, width, cyan if color else str)


def _folded(line: str, width: int) -> Iterator[str]:
    """Fold a long command line so that it can still be pasted."""
    if "#" in line:
        yield f"  {line}"
        return
    *first, last = textwrap.wrap(line, width - 6, break_long_words=False, break_on_hyphens=False)
    yield from (f"{'    ' if n else '  '}{each} \\" for n, each in enumerate(first))
    yield f"{'    ' if first else '  '}{last}"


def _table(
    rows: Sequence[tuple[str, str]], width: int, paint: Callable[[str], str], least: int = 0
) -> Iterator[str]:
    column = min(max(least, *(len(name) for name, _ in rows)), _NAME_COLUMN) + 2
    for name, text in rows:
        lines = textwrap.wrap(text, width - column - 2, break_on_hyphens=False)
        if len(name) > column - 2:
            yield f"  {paint(name)}"
            name = ""
        else:
            yield f"  {paint(name)}{' ' * (column - len(name))}{lines.pop(0) if lines else ''}"
        yield from (f"{'':{column + 2}}{line}" for line in lines)
