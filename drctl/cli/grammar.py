"""What all commands share: options, requests and help."""

import contextlib
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, wraps
from pathlib import Path
from types import GenericAlias, MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo, ParameterInfo

from drctl.cli.help_pages import help_page, summary
from drctl.cli.options import DRY_RUN, Output, dry_run_parameter, options, shared_parameters
from drctl.model.errors import ExitCode, UsageError

R = TypeVar("R")

LinkName = Annotated[
    str | None,
    typer.Option(
        "--link", metavar="LINK", help="Link in drctl.yaml.", show_default="the only link"
    ),
]
ClusterAlone = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="CLUSTER",
        help="Cluster in drctl.yaml, for runs on a single cluster. Use instead of --link.",
    ),
]
OfWorkers = Annotated[
    str | None,
    typer.Option(
        "--connect",
        metavar="URL",
        help="Connect worker URLs, separated by commas, for runs of `drctl connect`. Use instead"
        " of --link.",
    ),
]
Execute = Annotated[
    bool,
    typer.Option("--execute", help="Apply the plan. Without --execute, the plan is only printed."),
]
Yes = Annotated[bool, typer.Option("--yes", help="With --execute: skip the confirmation prompt.")]
Overrides = Annotated[
    tuple[str, ...],
    typer.Option(
        "--override",
        metavar="PRECHECK=REASON",
        help="Continue even if this precheck fails. The reason is recorded in the journal."
        " Repeatable.",
    ),
]
Answers = Annotated[
    tuple[str, ...],
    typer.Option(
        "--answer",
        metavar="QUESTION=yes|no",
        help="Answer the question of a manual step in advance: QUESTION is the step id."
        " Repeatable.",
    ),
]
DrainTimeout = Annotated[
    str,
    typer.Option(
        "--timeout",
        metavar="TIME",
        help="Time limit for replication to catch up, for example 90s, 10m or 2h.",
    ),
]
WaitForConsumers = Annotated[
    str,
    typer.Option(
        "--wait-for-consumers",
        metavar="TIME",
        help="Time limit for consumers to read the fenced topics to their end and commit.",
    ),
]
PlanOut = Annotated[
    Path | None,
    typer.Option("--plan-out", metavar="FILE", help="Also write the plan to this file, as JSON."),
]
ExpectPlan = Annotated[
    Path | None,
    typer.Option(
        "--expect-plan",
        metavar="FILE",
        help="Refuse to run unless the plan matches this file, written earlier with --plan-out.",
    ),
]
Local = Annotated[
    bool, typer.Option("--local", help="Read this host's copy of the journal. Contacts no cluster.")
]
Topics = Annotated[
    tuple[str, ...],
    typer.Option(
        "--topic",
        metavar="TOPIC",
        help="Only this topic, by its exact name. Repeatable.",
        show_default="all topics",
    ),
]


_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|)")


def seconds(text: str, option: str, *, zero: bool = False) -> float:
    """Parse a time such as 90s, 5m or 2h.

    Args:
        option: the option, for the error message.
        zero: whether 0 is allowed.

    Raises:
        UsageError: it is not a time, or it is 0 and that is not allowed.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(
            f"{option}: {text!r} is not a duration", f"for example: {option} 90s (s, m, h or d)"
        )
    length = float(found[1]) * _SECONDS[found[2]]
    if not length and not zero:
        raise UsageError(f"{option} must be longer than 0", f"for example: {option} 1s")
    return length


def drain_times(timeout: str, wait_for_consumers: str) -> tuple[float, float]:
    """Parse --timeout and --wait-for-consumers; only the latter may be 0.

    Raises:
        UsageError: one of them is not a time.
    """
    waiting_s = seconds(wait_for_consumers, "--wait-for-consumers", zero=True)
    return seconds(timeout, "--timeout"), waiting_s


def option_words(given: Mapping[str, object]) -> list[str]:
    """Return the command-line words for these options.

    A tuple repeats its option and True is a flag; None, "", () and False are omitted.
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
    """Refuse --yes without --execute.

    Raises:
        UsageError: --yes was given without --execute.
    """
    if yes and not execute:
        raise UsageError("--yes requires --execute: without --execute there is no prompt")


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """Options of every command that makes a plan."""

    link: str | None = None
    execute: Execute = False
    yes: Yes = False
    override: Overrides = ()
    answer: tuple[str, ...] = ()
    plan_out: PlanOut = None
    expect_plan: ExpectPlan = None

    def check(self) -> None:
        """Check the combination of options and the file of --expect-plan.

        Raises:
            UsageError, ConfigError: one of them is wrong.
        """
        from drctl.app.plan_files import check_plan_file

        check_confirming(self.execute, self.yes)
        if self.expect_plan:
            check_plan_file(self.expect_plan)


_OF_ONE_RUN = ("execute", "yes", "plan_out", "expect_plan")
_EXIT_CODES = """
    Exit codes:
        0: done, or the plan has no blockers
        1: done, with outstanding actions
        3: refused, or rolled back completely
        4: stopped part-way; `drctl report` says whether to resume the run or to start a new one
        5: unknown: no answer; the message says whether a run must be resumed
        130: interrupted
"""


class _Field(NamedTuple):
    """A field of a request that is a parameter of its command; an argument has no `flag`."""

    name: str
    kind: Any
    info: ParameterInfo
    default: Any
    flag: str

    @property
    def many(self) -> bool:
        """Whether the option is repeatable."""
        return get_origin(self.kind) is tuple


@cache
def _fields(request: type) -> tuple[_Field, ...]:
    """Fields of a class come before those of its bases."""
    found = []
    hints = get_type_hints(request, include_extras=True)
    defaults = {each.name: each.default for each in fields(request)}
    names = (n for kind in request.__mro__ for n in getattr(kind, "__annotations__", ()))
    for name in dict.fromkeys(names):
        kind, *infos = (get_args(hints[name]) if name in defaults else ()) or (None,)
        for info in infos:
            if isinstance(info, ParameterInfo):
                given = info.default if isinstance(info.default, str) else f"--{name}"
                flag = given.replace("_", "-") if isinstance(info, OptionInfo) else ""
                found.append(_Field(name, kind, info, defaults[name], flag))
    return tuple(found)


def takes_request(command: Callable[[R], int | None]) -> Callable[..., int | None]:
    """Make the fields of a command's request its options and arguments.

    A tuple is a repeatable option. The help of a command that makes a plan gets the usual exit
    codes, unless it lists its own.
    """
    request = next(iter(inspect.signature(command).parameters.values())).annotation
    offered = _fields(request)
    many = {each.name for each in offered if each.many}

    @wraps(command)
    def called(**values: Any) -> int | None:
        typed = {name: tuple(v or ()) if name in many else v for name, v in values.items()}
        return command(request(**typed))

    parameters = [_parameter(each) for each in offered]
    vars(called)["__signature__"] = inspect.Signature(parameters)
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    if issubclass(request, PlanRequest) and "Exit codes:" not in (command.__doc__ or ""):
        called.__doc__ = f"{(command.__doc__ or '').rstrip()}\n{_EXIT_CODES}"
    return called


def _parameter(each: _Field) -> inspect.Parameter:
    default = inspect.Parameter.empty if each.default is MISSING else each.default
    kind = each.kind
    if each.many:
        kind, default = GenericAlias(list, get_args(kind)[:1]), default or None
    annotation: Any = Annotated[(kind, each.info)]
    return inspect.Parameter(
        each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def words_of(given: Any, *always: str, **instead: object) -> list[str]:
    """Return the options that repeat a request, without --execute, --yes and plan files.

    Args:
        always: options that are included even with their default values.
        instead: values that replace those of the request; None omits the option.
    """
    typed = {}
    for each in _fields(given.__class__):
        value = instead.get(each.name, getattr(given, each.name))
        repeated = each.flag and each.name not in _OF_ONE_RUN
        if repeated and (each.name in always or value != each.default):
            typed[each.flag] = value
    return option_words(typed)


def command_line(words: Sequence[str]) -> str:
    """Return a drctl command line that uses the same configuration file."""
    config = options().config
    named = ["--config", str(config)] if config else []
    return shlex.join(["drctl", *named, *words])


# Contexts and parameters are Any: they are classes of the Click that Typer vendors.


@contextlib.contextmanager
def _errors_of(ctx: Any) -> Iterator[None]:
    """Add the command to errors of Click's parser, so that their hint names its help page."""
    try:
        yield
    except typer.TyperException as error:
        if getattr(error, "ctx", ctx) is None:
            error.ctx = ctx  # type: ignore[attr-defined]
        raise


class DrctlCommand(TyperCommand):
    """A command that also takes the global options, and may have subcommands.

    Attributes:
        subcommands: summaries by name, such as `history` of `drctl drill`.
    """

    subcommands: Mapping[str, str] = MappingProxyType({})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line of this command."""
        with _errors_of(ctx):
            return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its own parameters, with --dry-run after --execute, then the global options."""
        return with_shared(super().get_params(ctx))

    def get_help(self, ctx: Any) -> str:
        """Return the help page, as text or JSON."""
        return help_page(self, ctx, sys.stdout)

    def panels(self, ctx: Any) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Return subcommands with their summaries, by panel."""
        return {"Commands": tuple(self.subcommands.items())}

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete subcommands and options."""
        from typer.core import CompletionItem  # type: ignore[attr-defined]

        matching = (name for name in self.subcommands if name.startswith(incomplete))
        found = [CompletionItem(name, help=self.subcommands[name]) for name in matching]
        return found + super().shell_complete(ctx, incomplete)

    def invoke(self, ctx: Any) -> Any:
        """Run it, unless options contradict each other.

        Raises:
            UsageError: both --dry-run and --execute were given.
        """
        if ctx.meta.get(DRY_RUN) and ctx.params.get("execute"):
            raise UsageError("--dry-run and --execute cannot be combined", "remove one of them")
        return super().invoke(ctx)


class DrctlGroup(TyperGroup):
    """A command with subcommands that also takes the global options."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line up to the subcommand."""
        with _errors_of(ctx):
            return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its own parameters, then the global options."""
        return with_shared(super().get_params(ctx))

    def get_help(self, ctx: Any) -> str:
        """Return the help page, as text or JSON."""
        return help_page(self, ctx, sys.stdout)

    def panels(self, ctx: Any) -> Mapping[str, Sequence[tuple[str, str]]]:
        """Return subcommands with their summaries, by panel."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        return {
            "Commands": [(name, summary(each.help if each else None)) for name, each in commands]
        }

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; without one, print the help page as a usage error."""
        if not ctx._protected_args and options().output is Output.TEXT:
            sys.stderr.write(help_page(self, ctx, sys.stderr) + "\n")
            raise typer.Exit(ExitCode.USAGE)
        return super().invoke(ctx)


def adopt(app: typer.Typer) -> typer.Typer:
    """Make all commands of an app instances of the classes above."""
    app.rich_markup_mode = None
    app._add_completion = False
    app.info.cls = DrctlGroup
    app.info.no_args_is_help = False
    for command in app.registered_commands:
        command.cls = DrctlCommand
    for group in app.registered_groups:
        group.cls = DrctlGroup
        if group.typer_instance is not None:
            adopt(group.typer_instance)
    return app


def with_shared(own: list[Any]) -> list[Any]:
    """Add --dry-run and the global options whose names the command does not use itself."""
    taken = {name for param in own for name in param.opts}
    place = next((n for n, param in enumerate(own, 1) if "--execute" in param.opts), 0)
    if place:
        own = [*own[:place], dry_run_parameter(), *own[place:]]
    return own + [shared for shared in shared_parameters() if taken.isdisjoint(shared.opts)]
