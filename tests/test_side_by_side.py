"""A test process that dies loses neither results of others nor the run."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.side_by_side import SPARK, TLS, file_of

TESTS = Path(__file__).parent
DIES = "import os\ndef test_dies(): os._exit(1)\n"
PASSES = "def test_passes(): pass\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "files", "summary"),
    [
        pytest.param(
            2,
            {"a": PASSES, "b": PASSES, "c": DIES + PASSES, "d": PASSES},
            "1 failed, 4 passed",
            id="what-it-had-not-begun-is-run",
        ),
        pytest.param(1, {"a": PASSES, "b": DIES}, "1 failed, 1 passed", id="at-the-very-end"),
        pytest.param(
            1, {"a": DIES, "b": DIES, "c": PASSES}, "2 failed, 1 passed", id="one-after-the-other"
        ),
    ],
)
def test_a_process_that_dies(
    tmp_path: Path, processes: int, files: dict[str, str], summary: str
) -> None:
    for name, text in files.items():
        (tmp_path / f"test_{name}.py").write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.side_by_side", "-p", "no:cacheprovider"),
            *("-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"),
            *("--rootdir", str(tmp_path), "-c", "/dev/null", str(tmp_path)),
        ],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert summary in ran.stdout.splitlines()[-1], ran.stdout


@pytest.mark.parametrize(
    ("fixture", "folder", "files"),
    [("cluster", "tests/kafka/", TLS), ("spark", "tests/spark/", SPARK)],
    ids=["tls", "spark"],
)
def test_files_that_share_a_fixture_are_one_group(
    request: pytest.FixtureRequest, fixture: str, folder: str, files: tuple[str, ...]
) -> None:
    """As far as this run collects them."""
    items = (item for item in request.session.items if item.nodeid.startswith(folder))
    sharing = {file_of(item.nodeid) for item in items if fixture in item.fixturenames}
    assert sharing <= set(files)
    assert all((TESTS.parent / file).exists() for file in files)
