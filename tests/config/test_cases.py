"""Files with errors, and the message for each. DRCTL_REGENERATE=1 writes the expected texts."""

import os
from pathlib import Path

import pytest

from drctl.config.loading import load
from drctl.model.errors import ConfigError, ExitCode

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))


def test_there_are_cases() -> None:
    assert len(CASES) >= 15


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_all_errors_are_reported(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(case.parent)
    with pytest.raises(ConfigError) as caught:
        load(Path(case.name))
    message = caught.value.message + "\n"
    expected = case.with_suffix(".expected")
    if os.environ.get("DRCTL_REGENERATE"):
        expected.write_text(message, encoding="utf-8")
    assert message == expected.read_text(encoding="utf-8")
    assert caught.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_no_secret_and_no_control_character_is_shown(
    case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(case.parent)
    with pytest.raises(ConfigError) as caught:
        load(Path(case.name))
    assert "planted" not in caught.value.message
    assert "hunter" not in caught.value.message
    assert all(line.isprintable() for line in caught.value.message.split("\n"))


def test_yaml_tags_are_not_executed() -> None:
    assert not Path("/tmp/drctl-was-here").exists()
