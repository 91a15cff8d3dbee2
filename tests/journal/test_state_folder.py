"""The folder of journals before the first run."""

from pathlib import Path

import pytest

from drctl.model.errors import ConfigError
from drctl.stores.journal_files import StateFolder


def test_an_existing_folder_and_one_to_create(tmp_path: Path) -> None:
    missing = StateFolder(tmp_path / "not" / "yet")
    missing.check()
    StateFolder(tmp_path).check()
    assert not list(tmp_path.iterdir())
    assert missing.where == str(tmp_path / "not" / "yet")


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is not a directory") as caught:
        StateFolder(tmp_path / "file" / "runs").check()
    assert "state_dir" in caught.value.hint


def test_a_folder_without_write_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Some builds run as root, who may write to every folder.
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(ConfigError, match="may not write"):
        StateFolder(tmp_path / "runs").check()
