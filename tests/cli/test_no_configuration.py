"""Without drctl.yaml, every command names the file it looked for and how to create it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from drctl.cli.main import app
from tests.cli.conftest import Run

ARGUMENTS = {
    "connect offsets apply": ("--from", "offsets.json"),
    "connect offsets translate": ("--from", "offsets.json"),
    "duplicates": ("--topic", "x"),
    "elect unclean": ("--topic", "x", "--partition", "0"),
    "offsets explain": ("group", "topic", "0"),
    "offsets undo": ("RUN",),
    "reconcile": ("--policy", "copy"),
    "runbook run": ("unplanned-failover",),
}
EXPORT = {
    "schema": "drctl/connect-offsets/1",
    "workers": "http://127.0.0.1:8083",
    "kafka_cluster_id": "an-id",
    "taken": "2026-03-05T17:00:00+00:00",
    "connectors": [],
}
WITHOUT = ("completion", "help", "init", "lab", "schema")
"""Neither these commands nor all of their subcommands need a configuration."""
OPTIONAL = ("runbook lint", "runbook list", "runbook render", "runbook show")
"""Commands that use a configuration if there is one."""


def leaves(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "list_commands"):
        yield words
        return
    context = command.context_class(command, info_name="drctl")
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*words, name))
    if words and getattr(command, "invoke_without_command", False):
        yield words


NEEDING = sorted(
    " ".join(words)
    for words in leaves(typer.main.get_command(app))
    if words[0] not in WITHOUT and " ".join(words) not in OPTIONAL
)


def test_commands_are_found() -> None:
    assert {"status", "doctor", "gap", "failover", "failback", "resume", "report"} <= {*NEEDING}
    assert len(NEEDING) > 20


@pytest.mark.parametrize("command", NEEDING)
def test_a_command_names_the_file_and_how_to_create_it(
    called: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "offsets.json").write_text(json.dumps(EXPORT), encoding="utf-8")
    ran = called(*command.split(), *ARGUMENTS.get(command, ()))
    assert (ran.code, ran.stdout) == (2, ""), ran
    error, hint = ran.stderr.splitlines()
    assert error == f"error: configuration not found: {tmp_path / 'drctl.yaml'}"
    assert hint.startswith("hint: create it: drctl init PRIMARY:9092 SECONDARY:9092; or ")


def test_a_file_named_on_the_command_line(called: Run) -> None:
    ran = called("status", "--config", "my file.yaml")
    assert (ran.code, ran.stdout) == (2, "")
    error, hint = ran.stderr.splitlines()
    assert error == "error: configuration not found: my file.yaml (from --config)"
    assert hint.endswith(
        "create the file: drctl init PRIMARY:9092 SECONDARY:9092 --output-file 'my file.yaml'"
    )
