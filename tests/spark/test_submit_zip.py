"""The zip contains what the job imports, which is only itself and PySpark."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import py4j
import pyspark
import pytest

from drctl.spark.submission import JOB, imported, needed_modules, write_job

PROBE = """
import runpy, sys
sys.argv = ["drctl_gap.py"]
try:
    runpy.run_path("drctl_gap.py", run_name="__main__")
except ValueError as error:
    assert "unpack" in str(error), error  # main() wants four arguments: so all is imported
from drctl.spark import submit_job
print(submit_job.__file__)
print(sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_only_pyspark_is_needed_beside_it() -> None:
    roots = {name.partition(".")[0] for module in needed_modules(JOB) for name in imported(module)}
    assert roots - sys.stdlib_module_names == {"drctl", "pyspark", "py4j"}


def test_nothing_of_the_client_is_in_it() -> None:
    assert not [m for m in needed_modules(JOB) if m.startswith(("drctl.cli", "drctl.config"))]
    assert "drctl.spark.submit" not in needed_modules(JOB)


def test_it_runs_where_only_pyspark_is_installed(tmp_path: Path) -> None:
    main, packed = write_job(tmp_path)
    alone = tmp_path / "site"
    alone.mkdir()
    for package in (pyspark, py4j):
        place = Path(package.__path__[0])
        (alone / place.name).symlink_to(place)
    (tmp_path / "probe.py").write_text(PROBE, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-S", "-s", "-W", "error", "probe.py"],
        env={"PYTHONPATH": os.pathsep.join([str(packed), str(alone)]), "PATH": os.environ["PATH"]},
        cwd=main.parent,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    origin, modules = done.stdout.splitlines()
    assert origin.startswith(str(packed))
    for name in ("pydantic", "typer", "rich", "confluent_kafka", "yaml", "jinja2"):
        assert f"'{name}'" not in modules


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append([path.read_bytes() for path in write_job(tmp_path / name)])
    assert made[0] == made[1]


def test_sources_only(tmp_path: Path) -> None:
    _, packed = write_job(tmp_path)
    names = zipfile.ZipFile(packed).namelist()
    assert "drctl/__init__.py" in names
    assert all(name.endswith(".py") for name in names)


def test_an_old_python_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main, _ = write_job(tmp_path)
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(sys, "version", "3.9.2 (default)")
    with pytest.raises(SystemExit, match=r"drctl needs Python 3\.11 .* not 3\.9\.2"):
        exec(compile(main.read_bytes(), "main", "exec"), {})
