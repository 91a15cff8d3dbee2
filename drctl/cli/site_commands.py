"""Commands of the site that a step runs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from drctl.cli.runs import plan_wiring
from drctl.engine.ports import CommandEnded
from drctl.model.errors import ConfigError, Refused, Unreachable

if TYPE_CHECKING:
    from drctl.config.configuration import Config


def run_command(
    config: "Config", argv: Sequence[str], env: Mapping[str, str], timeout_s: float
) -> CommandEnded:
    """Run one to its end, without a shell.

    Raises:
        Unreachable: it took too long, and was ended.
    """
    from drctl.systems.endpoints.command_process import TimedOut

    try:
        commands = plan_wiring.site_commands(config, env, timeout_s)
        ended = commands.run(argv)
    except TimedOut:
        raise Unreachable(f"{argv[0]} was ended after {timeout_s:g} s") from None
    except (Refused, ConfigError) as never:
        return CommandEnded(None, never.message)
    return CommandEnded(ended.code, ended.errors or ended.output)
