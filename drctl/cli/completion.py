"""`drctl completion`: the script that makes a shell complete drctl's commands and options."""

from enum import StrEnum
from typing import Annotated

import typer

from drctl.cli.console import console
from drctl.model.lines import Lines


class Shell(StrEnum):
    """The shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="The shell to write it for.")]) -> None:
    """Print a script that completes drctl in your shell.

    bash: source <(drctl completion bash), in ~/.bashrc.

    zsh: source <(drctl completion zsh), in ~/.zshrc after compinit.

    fish: drctl completion fish > ~/.config/fish/completions/drctl.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    from drctl.cli.main import COMPLETION_VARIABLE

    script = get_completion_script(
        prog_name="drctl", complete_var=COMPLETION_VARIABLE, shell=shell.value
    )
    console().result(
        Lines(script), {"schema": "drctl/completion/1", "shell": shell.value, "script": script}
    )
