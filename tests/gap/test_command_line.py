"""Options of `drctl gap` that exclude each other."""

from pathlib import Path

import pytest

from drctl.cli.main import run

WRONG = {
    "--order and --ledger cannot be combined": ("gap", "--order", "--ledger"),
    "use neither --order nor truncation": ("gap", "--scope", "estimate", "--order"),
    "cannot be combined with --stabilize": ("gap", "--scope", "estimate", "--stabilize", "5s"),
    "reads no records": ("gap", "truncation", "--scope", "estimate"),
    "No such option: --export": ("gap", "--export", "x"),
    "--include-superseded requires --export": ("gap", "truncation", "--include-superseded"),
    "--every cannot be combined": ("gap", "truncation", "--export", "x", "--every", "5m"),
    "No such option: --cluster": ("gap", "--cluster", "primary"),
    "No such option: --scope": ("duplicates", "--topic", "t", "--scope", "full"),
    "Missing option '--topic'": ("duplicates", "--identity", "debezium"),
    "--scope estimate cannot be combined": ("gap", "--scope", "estimate", "--engine", "spark"),
    "No such option: --engine": ("duplicates", "--topic", "t", "--engine", "direct"),
    "--execute requires --ledger": ("gap", "--execute"),
    "hint: add --ledger": ("gap", "--yes", "--execute"),
    "--yes requires --execute": ("gap", "--ledger", "--yes"),
    "--submit and --engine direct cannot be combined": ("gap", "--submit", "--engine", "direct"),
}


@pytest.mark.parametrize(("message", "words"), WRONG.items(), ids=WRONG)
def test_it_is_refused(
    message: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_an_export_goes_to_an_empty_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").write_text("x")
    assert run(["gap", "truncation", "--export", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
