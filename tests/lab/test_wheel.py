"""The wheel alone in an empty environment outside the checkout: templates, runbooks, lab, gap."""

import json
import os
import random
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from drctl.lab.lab import Lab
from drctl.lab.starting import free_port_base
from tests.cluster.link_command import soon
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


def build(kind: str, folder: Path) -> Path:
    """Build a wheel or source distribution with the checkout's build backend."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory"]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True, timeout=120)
    (made,) = (path for path in folder.iterdir() if path.suffix in (".whl", ".gz"))
    return made


class Installed:
    """The wheel in a virtual environment without the checkout."""

    def __init__(self, folder: Path, dependencies: str) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        self.locked = dependencies == "locked"
        wheel = build("wheel", folder / "dist")
        venv.create(folder / "venv", with_pip=True)
        self._pip("--no-deps" if self.locked else "--prefer-binary", f"{wheel}[lab]")
        if self.locked:
            # Python ignores .pth files in a path added by a .pth file: the checkout itself stays
            # invisible.
            (site,) = (folder / "venv" / "lib").glob("python3*/site-packages")
            (site / "locked.pth").write_text(sysconfig.get_path("purelib"))

    def drctl(self, *words: str, code: int | None = 0) -> str:
        """Run drctl; return what it prints."""
        program = self.folder / "venv" / "bin" / "drctl"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        done = subprocess.run(
            [str(program), *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert code in (None, done.returncode), (done.stdout, done.stderr)
        return done.stdout

    def _pip(self, *words: str) -> None:
        pip = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *words], check=True, timeout=500, capture_output=True)


@pytest.fixture(
    scope="module", params=["locked", pytest.param("from the index", marks=pytest.mark.nightly)]
)
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"), request.param)


@pytest.fixture
def lab_folder(installed: Installed, request: pytest.FixtureRequest) -> Iterator[str]:
    """The tests' lab; in the nightly run one that the wheel itself has started."""
    if installed.locked:
        lab: Lab = request.getfixturevalue("lab")
        clusters = [ClusterUnderTest(lab.cluster(name)) for name in ("primary", "secondary")]
        yield str(lab.root)
        for cluster in clusters:
            cluster.delete_topics(["flights"])
    else:
        ports = str(free_port_base(random.Random()))
        try:
            installed.drctl("lab", "up", "--dir", "lab", "--port-base", ports, "--heap-mb", "320")
            yield "lab"
        finally:
            installed.drctl("lab", "down", "--dir", "lab")


def test_a_new_user_gets_help_runbooks_a_lab_and_a_comparison(
    installed: Installed, lab_folder: str
) -> None:
    where = "import drctl, os; print(os.path.dirname(drctl.__file__))"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    package = subprocess.run(
        [str(installed.python), "-c", where],
        cwd=installed.folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert package.startswith(str(installed.folder))
    assert "failover" in installed.drctl("--help")
    runbooks = json.loads(installed.drctl("--output", "json", "runbook", "list"))["runbooks"]
    assert "planned-switchover" in {each["name"] for each in runbooks}
    assert "fence" in installed.drctl("runbook", "render", "planned-switchover")
    installed.drctl("lab", "status", "--dir", lab_folder)
    installed.drctl("lab", "load", "--dir", lab_folder, "--count", "100")
    installed.drctl("lab", "env", "--dir", lab_folder)
    # A lab that has just started may need a while before it replicates.
    words = ["--output", "json", "gap", "--scope", "full", "--topic", "flights"]
    soon(lambda: json.loads(installed.drctl(*words, code=None))["totals"]["unreplicated"] == 0)
    assert "flights" in installed.drctl(*words)


def shipped() -> list[Path]:
    """Return the files beside the package that a wheel contains."""
    folders = (ROOT / "templates", ROOT / "runbooks")
    return [each for folder in folders for each in folder.rglob("*") if each.is_file()]


def test_the_wheel_has_only_the_package_and_its_data(tmp_path: Path) -> None:
    names = ZipFile(build("wheel", tmp_path)).namelist()
    roots = {name.split("/")[0] for name in names}
    assert {name for name in roots if not name.endswith(".dist-info")} == {"drctl"}
    data = {f"_data/{each.relative_to(ROOT)}" for each in shipped()}
    assert {"_data/runbooks/before-the-primary-returns.md", "_data/runbooks/failback.yaml"} <= data
    assert {f"drctl/{each}" for each in ("py.typed", *data)} <= {*names}
    assert not [name for name in names if "__pycache__" in name]


def test_the_source_distribution_can_be_built_again(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "templates/run.html.j2"} <= names
    assert "runbooks/failback.yaml" in names
