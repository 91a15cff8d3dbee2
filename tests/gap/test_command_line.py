"""What does not go together on the command line of `drctl gap`."""

from pathlib import Path

import pytest

from drctl.cli.main import run

WRONG = {
    "--order does not go with --ledger": ("--order", "--ledger"),
    "--scope estimate reads none": ("--scope", "estimate", "--order"),
    "--settle waits for records to arrive": ("--scope", "estimate", "--settle", "5s"),
    "--order and --view truncation go by records": (
        *("--scope", "estimate", "--view", "truncation"),
    ),
    "--export goes with --view truncation": ("--export", "x"),
    "--others goes with --export": ("--view", "truncation", "--others"),
    "it does not go with --every": ("--view", "truncation", "--export", "x", "--every", "5m"),
    "--cluster goes with --identity": ("--cluster", "primary"),
    "--identity looks within topics of one cluster": (
        *("--identity", "debezium", "--topic", "t", "--scope", "full"),
    ),
    "within topics that are named": ("--identity", "debezium"),
    "it does not go with --scope estimate": ("--scope", "estimate", "--engine", "spark"),
    "it does not go with --identity": (
        *("--identity", "debezium", "--topic", "t", "--engine", "direct"),
    ),
    "it does not go with --engine direct": ("--submit", "--engine", "direct"),
}


@pytest.mark.parametrize(("message", "words"), WRONG.items(), ids=WRONG)
def test_it_is_refused(
    message: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["gap", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_an_export_goes_to_an_empty_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("x")
    assert run(["gap", "--view", "truncation", "--export", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
