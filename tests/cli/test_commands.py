"""The commands: complete, described in the help, and completed by shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from drctl.cli.commands import COMMANDS, SUBCOMMANDS
from drctl.cli.help_pages import CommandReference, reference, summary
from tests.cli.conftest import DRCTL, Run, clean_environment
from tests.cli.documents import check

ALL = COMMANDS | SUBCOMMANDS
REFERENCE = {each.path: each for each in reference()}
WIDEST = 100


@pytest.mark.parametrize("name", ALL)
def test_help_summaries_match_the_commands(name: str) -> None:
    assert summary(ALL[name].load(name).help) == ALL[name].summary


@pytest.mark.parametrize("about", REFERENCE.values(), ids=REFERENCE)
def test_help_pages(about: CommandReference, called: Run) -> None:
    """Short summaries, examples, no Python types, at most 100 columns."""
    page = called(*about.path.split()[1:], "--help").stdout
    assert about.usage in page
    assert len(about.summary) <= 70
    assert len(about.examples) >= 2
    assert all(about.path in line or line.startswith("drctl") for line in about.examples)
    for each in (*about.arguments, *about.options, *about.global_options):
        assert each.text.endswith("."), each.names
        assert each.names in page
        assert "<" not in each.value
        assert "else" not in each.text.lower().split()
    assert max(map(len, page.splitlines())) <= WIDEST


def test_options_mean_the_same_everywhere() -> None:
    """A file is --output-file and a folder --out; --topic and --group are exact names."""
    for about in REFERENCE.values():
        options = {each.names: each for each in about.options}
        if "--out" in options:
            assert options["--out"].value == "DIR"
        if "--output-file" in options:
            assert options["--output-file"].value == "FILE"
        for name in ("--topic", "--group"):
            if name in options and about.path != "drctl lab load":
                assert options[name].value.startswith(("TOPIC", "GROUP"))
        assert ("--execute" in options) == ("--dry-run" in options)


@pytest.mark.parametrize("name", ALL)
def test_each_command_takes_the_global_options(name: str) -> None:
    command = ALL[name].load(name)
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


COMPLETIONS = {
    "drctl ": list(COMMANDS),
    "drctl completion ": ["bash", "zsh", "fish"],
    "drctl gap --lin": ["--link"],
    "drctl drill ": ["history", "clean"],
    "drctl gap truncation --exp": ["--export"],
    "drctl help connect offsets tr": ["translate"],
    "drctl gap --output j": ["json"],
}


@pytest.mark.slow
def test_bash_completes(tmp_path: Path) -> None:
    """The completion script in a real bash."""
    script = 'source <("$DRCTL" completion bash)\n'
    for typed in COMPLETIONS:
        words = typed.split(" ")
        script += (
            f"COMP_WORDS=({' '.join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}\n"
            '_drctl_completion "$DRCTL"\necho "${COMPREPLY[@]}"\n'
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
    assert done.stderr == ""
    offered = [line.split() for line in done.stdout.splitlines()]
    assert dict(zip(COMPLETIONS, offered, strict=True)) == COMPLETIONS
