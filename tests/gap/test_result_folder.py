"""The result folder of `drctl gap`: complete, or as it was before."""

from pathlib import Path

import pytest

from drctl.views.gap_files import prepared, publish
from tests.report.gaps import one_record


def interrupt(out: Path) -> None:
    with prepared(out) as work:
        (work / "records").mkdir()
        raise KeyboardInterrupt


def test_an_interrupted_comparison_leaves_no_folder(tmp_path: Path) -> None:
    out = tmp_path / "gap" / "main-1"
    with pytest.raises(KeyboardInterrupt):
        interrupt(out)
    assert not out.exists()


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupt(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_complete_result_stays(tmp_path: Path) -> None:
    out = tmp_path / "main-1"
    with prepared(out) as work:
        for name in ("records", "others"):
            (work / name).mkdir()
        publish(one_record(), work, out)
    assert {each.name for each in out.iterdir()} == {"records", "others", "gap.html", "gap.json"}
