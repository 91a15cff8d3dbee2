"""Files with errors, and the output of lint. DRCTL_REGENERATE=1 writes the expected texts."""

import os
from pathlib import Path

import pytest

from drctl.model.errors import ConfigError, ExitCode
from drctl.runbook.allowlist import Allowlist
from drctl.runbook.linting import lint, lint_all
from drctl.runbook.reading import load

FOLDER = Path(__file__).parent / "cases"
CASES = sorted(FOLDER.glob("*.yaml"))
ALLOWLIST = Allowlist(
    (
        ("systemctl", "stop", "*"),
        ("systemctl", "start", "mm2"),
        ("systemctl", "status", "..."),
        ("ls", "a", "..."),
        ("ls",),
    )
)


def test_there_are_cases() -> None:
    assert len(CASES) >= 20


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_lint_reports_every_error(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case.parent)
    rendered = "".join(f"{line}\n" for line in lint(Path(case.name), ALLOWLIST).lines)
    expected = case.with_suffix(".expected")
    if os.environ.get("DRCTL_REGENERATE"):
        expected.write_text(rendered, encoding="utf-8")
    assert rendered == expected.read_text(encoding="utf-8")
    assert rendered
    assert all(line.isprintable() for line in rendered.splitlines())


def test_a_file_with_errors_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    with pytest.raises(ConfigError) as caught:
        load(Path("when.yaml"))
    lines = lint(Path("when.yaml")).lines
    assert caught.value.message.splitlines()[1:] == list(lines)
    assert caught.value.exit_code is ExitCode.USAGE


def test_folders_and_missing_files(tmp_path: Path) -> None:
    found = lint_all([FOLDER, tmp_path / "missing.yaml"], ALLOWLIST)
    assert [each.path for each in found] == [*CASES, tmp_path / "missing.yaml"]
    assert found[-1].lines == (
        f"{tmp_path / 'missing.yaml'}: cannot be read: No such file or directory",
    )
    assert not found[-1].clean


def test_yaml_tags_are_not_executed() -> None:
    assert not (FOLDER / "x").exists()
    assert not Path("x").exists()
