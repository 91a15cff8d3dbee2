"""What every command of drctl has in common: the global options and the look of its help."""

import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo, ParameterInfo

from drctl.cli.options import Output, options, shared_parameters
from drctl.cli.terminal import bold, cyan, wants_color
from drctl.model.errors import UsageError

R = TypeVar("R")

_HEADING = re.compile(r"^(Usage:|[A-Z][a-z ]+:$)", re.MULTILINE)
_ENTRY = re.compile(r"^(  )(-\S.*?|[a-z[A-Z]\S*(?: [A-Z]\S*)*)(?=  |$)", re.MULTILINE)


def help_page(command: str, text: str) -> str:
    """What --help prints."""
    if options().output is Output.JSON:
        import json

        from drctl.views.command_documents import HelpDocument

        return json.dumps(HelpDocument(command=command, text=text).to_json())
    return _colored(text) if wants_color(sys.stdout, options()) else text


def _colored(text: str) -> str:
    prose, found, lists = text.partition("\nCommands:\n")
    if not found:
        prose, found, lists = text.partition("\nOptions:\n")
    lists = _ENTRY.sub(lambda match: match[1] + cyan(match[2]), found + lists)
    return _HEADING.sub(lambda match: bold(match[0]), prose + lists)


LinkName = Annotated[
    str | None,
    typer.Option("--link", metavar="LINK", help="A link of drctl.yaml; else the only one."),
]
ClusterAlone = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        help="Instead of a link: a cluster, for runs that are about it alone.",
    ),
]
OfWorkers = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="URL",
        help="Instead of a link: Connect workers, for runs of drctl connect.",
    ),
]
Execute = Annotated[
    bool, typer.Option("--execute", help="Carry it out; without, the plan is printed.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="With --execute: do not ask for the cluster's name.")
]
Overrides = Annotated[
    tuple[str, ...],
    typer.Option(
        "--override",
        metavar="GUARD=REASON",
        help="Pass over a guard that the plan names; may be repeated. Kept in the journal.",
    ),
]
Answers = Annotated[
    tuple[str, ...],
    typer.Option(
        "--answer",
        metavar="QUESTION=yes|no",
        help="Answer a question of a manual step beforehand; may be repeated.",
    ),
]
Patience = Annotated[
    str,
    typer.Option(
        "--patience", metavar="TIME", help="How long replication may take to bring the rest."
    ),
]
Grace = Annotated[
    str,
    typer.Option(
        "--grace", metavar="TIME", help="How long consumers may take to leave by themselves."
    ),
]
PlanOut = Annotated[
    Path | None, typer.Option("--plan-out", metavar="FILE", help="Write the plan there, as JSON.")
]
ExpectPlan = Annotated[
    Path | None,
    typer.Option(
        "--expect-plan", metavar="FILE", help="Go on only if the plan is the one in this file."
    ),
]
Local = Annotated[bool, typer.Option("--local", help="Read the copy of this machine, no cluster.")]


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|)")


def seconds(text: str, option: str, *, zero: bool = False) -> float:
    """How many seconds a time on the command line has.

    Args:
        option: that it was given with.
        zero: whether it may be 0.

    Raises:
        UsageError: it is no time, or 0 where that has no meaning.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{option}: {text!r} is not a time", f"for example {option} 90s, 5m or 2h")
    length = float(found[1]) * _SECONDS[found[2]]
    if not length and not zero:
        raise UsageError(f"{option} must be longer than 0", f"for example {option} 1s")
    return length


def times(patience: str, grace: str) -> tuple[float, float]:
    """How long replication may take to catch up, and consumers to leave; the latter may be 0.

    Raises:
        UsageError: one is no such time.
    """
    return seconds(patience, "--patience"), seconds(grace, "--grace", zero=True)


def option_words(given: Mapping[str, object]) -> list[str]:
    """Options as they are typed, by their names.

    A tuple repeats its option, True stands alone; None, "", () and False are left out.
    """
    words: list[str] = []
    for name, value in given.items():
        if value is True:
            words.append(name)
        elif isinstance(value, tuple):
            words += [word for each in value for word in (name, str(each))]
        elif value:
            words += [name, str(value)]
    return words


def check_confirming(execute: bool, yes: bool) -> None:
    """Refuse --yes where nothing is asked.

    Raises:
        UsageError: it was given without --execute.
    """
    if yes and not execute:
        raise UsageError("--yes goes with --execute: nothing is asked otherwise")


@dataclass(frozen=True, kw_only=True)
class Acting:
    """What the command line says of a plan, whatever it does."""

    link: str | None = None
    execute: Execute = False
    yes: Yes = False
    override: Overrides = ()
    answer: tuple[str, ...] = ()
    plan_out: PlanOut = None
    expect_plan: ExpectPlan = None

    def check(self) -> None:
        """See that options go together, and that a file holds a plan, before anything is asked.

        Raises:
            UsageError, ConfigError: they do not, or it does not.
        """
        from drctl.app.plan_files import check_plan_file

        check_confirming(self.execute, self.yes)
        if self.expect_plan:
            check_plan_file(self.expect_plan)


_OF_ONE_RUN = ("execute", "yes", "plan_out", "expect_plan")


class _Field(NamedTuple):
    """A field of a request that is a parameter of its command; `flag` is empty of an argument."""

    name: str
    kind: Any
    info: ParameterInfo
    default: Any
    flag: str

    @property
    def many(self) -> bool:
        """Whether it may be repeated."""
        return get_origin(self.kind) is tuple


def _fields(request: type) -> Iterator[_Field]:
    """Those of a class before those of its bases."""
    hints = get_type_hints(request, include_extras=True)
    defaults = {each.name: each.default for each in fields(request)}
    names = (n for kind in request.__mro__ for n in getattr(kind, "__annotations__", ()))
    for name in dict.fromkeys(names):
        kind, *infos = (get_args(hints[name]) if name in defaults else ()) or (None,)
        for info in infos:
            if isinstance(info, ParameterInfo):
                given = info.default if isinstance(info.default, str) else f"--{name}"
                flag = given.replace("_", "-") if isinstance(info, OptionInfo) else ""
                yield _Field(name, kind, info, defaults[name], flag)


def asks(command: Callable[[R], int | None]) -> Callable[..., int | None]:
    """Has a command that takes one frozen request take its fields as options and arguments.

    A tuple is an option that may be repeated.
    """
    request = next(iter(inspect.signature(command).parameters.values())).annotation
    offered = tuple(_fields(request))
    many = {each.name for each in offered if each.many}

    @wraps(command)
    def called(**values: Any) -> int | None:
        typed = {name: tuple(v or ()) if name in many else v for name, v in values.items()}
        return command(request(**typed))

    parameters = [_parameter(each) for each in offered]
    vars(called)["__signature__"] = inspect.Signature(parameters)
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _parameter(each: _Field) -> inspect.Parameter:
    default = inspect.Parameter.empty if each.default is MISSING else each.default
    kind = each.kind
    if each.many:
        kind, default = GenericAlias(list, get_args(kind)[:1]), default or None
    told: Any = Annotated[(kind, each.info)]
    return inspect.Parameter(
        each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=told
    )


def words_of(given: Any, *always: str, **instead: object) -> list[str]:
    """The options of a request, as they are typed to ask the same again; not those of one run.

    Args:
        always: options that are named also where they are what they are by themselves.
        instead: other values of some options; None leaves one out.
    """
    told = {}
    for each in _fields(type(given)):
        value = instead.get(each.name, getattr(given, each.name))
        told_anew = each.flag and each.name not in _OF_ONE_RUN
        if told_anew and (each.name in always or value != each.default):
            told[each.flag] = value
    return option_words(told)


def command_line(words: Sequence[str]) -> str:
    """A command line with the configuration of this one."""
    config = options().config
    named = ["--config", str(config)] if config else []
    return shlex.join(["drctl", *named, *words])


# Contexts, parameters and formatters are Any: they are classes of the Click that Typer has inside.


class DrctlCommand(TyperCommand):
    """A command that also takes the global options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own parameters, then the shared ones."""
        return with_shared(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options and global options apart."""
        write_parameters(self.get_params(ctx), ctx, formatter)

    def get_help(self, ctx: Any) -> str:
        """The whole page, as text or JSON."""
        return help_page(ctx.command_path, super().get_help(ctx))


class DrctlGroup(TyperGroup):
    """A command with subcommands that also takes the global options."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own parameters, then the shared ones."""
        return with_shared(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Subcommands first: they are what one looks for."""
        self.format_commands(ctx, formatter)
        write_parameters(self.get_params(ctx), ctx, formatter)

    def get_help(self, ctx: Any) -> str:
        """The whole page, as text or JSON."""
        return help_page(ctx.command_path, super().get_help(ctx))


def adopt(app: typer.Typer) -> typer.Typer:
    """The app with the classes above for all its commands."""
    app.rich_markup_mode = None
    app._add_completion = False
    app.info.cls = DrctlGroup
    app.info.no_args_is_help = False  # a forgotten command is an error, not a page on stdout
    for command in app.registered_commands:
        command.cls = DrctlCommand
    for group in app.registered_groups:
        group.cls = DrctlGroup
        if group.typer_instance is not None:
            adopt(group.typer_instance)
    return app


def with_shared(own: list[Any]) -> list[Any]:
    """The parameters and those global options whose names the command does not use itself."""
    taken = {name for param in own for name in param.opts}
    return own + [shared for shared in shared_parameters() if taken.isdisjoint(shared.opts)]


def write_parameters(params: list[Any], ctx: Any, formatter: Any) -> None:
    """A section of the help for each kind of parameter."""
    sections: dict[str, list[Any]] = {"Arguments": [], "Options": [], "Global options": []}
    for param in params:
        record = param.get_help_record(ctx)
        if record is None:
            continue
        shared = param in shared_parameters() or param.opts[0] in ctx.help_option_names
        kind = "Global options" if shared else "Options"
        sections["Arguments" if param.param_type_name == "argument" else kind].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def summary(text: str | None) -> str:
    """The first sentence of a help text."""
    return inspect.cleandoc(text or "").split("\n\n")[0].replace("\n", " ").rstrip(".")
