"""The commands: all there, said in the help as they say themselves, completed by the shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from drctl.cli.commands import COMMANDS
from drctl.cli.grammar import summary
from tests.cli.conftest import DRCTL, Run, clean_environment
from tests.cli.documents import check


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_of_a_command_what_the_command_says_itself(name: str) -> None:
    assert summary(COMMANDS[name].load(name).help) == COMMANDS[name].summary


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_takes_the_global_options(name: str) -> None:
    command = COMMANDS[name].load(name)
    with typer.Context(command, info_name=name) as context:
        options = {option for param in command.get_params(context) for option in param.opts}
    assert {"--config", "--output", "--quiet", "--verbose", "--no-color", "--version"} <= options


def test_help_imports_nothing_heavy() -> None:
    heavy = ("pyspark", "confluent_kafka", "jinja2", "pydantic", "urllib3", "yaml", "rich")
    program = (
        "import sys\nfrom drctl.cli.main import run\ncode = run(['--help'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(called: Run, shell: str) -> None:
    ran = called("completion", shell)
    assert (ran.code, ran.stderr) == (0, "")
    assert "_DRCTL_COMPLETE=complete_" + shell in ran.stdout
    if shell == "bash":
        document = check(called("completion", shell, "-o", "json").document())
        assert document["script"].strip() == ran.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("drctl ", list(COMMANDS)),
        ("drctl completion ", ["bash", "zsh", "fish"]),
        ("drctl gap --lin", ["--link"]),
        ("drctl gap --output j", ["json"]),
    ],
)
def test_bash_completes(tmp_path: Path, typed: str, offered: list[str]) -> None:
    """The script in a real bash, asked as bash asks."""
    words = typed.split(" ")
    script = (
        'source <("$DRCTL" completion bash)\n'
        f"COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}\n"
        '_drctl_completion "$DRCTL"\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env={**clean_environment(), "DRCTL": os.fspath(DRCTL)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert (done.stdout.split(), done.stderr) == (offered, "")
