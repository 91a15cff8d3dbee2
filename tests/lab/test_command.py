"""`drctl lab` as a person or a script runs it: exit codes, stdout, stderr, documents."""

import os
import subprocess
from pathlib import Path

import pytest

from drctl.config.loading import load
from drctl.lab.lab import Lab
from drctl.lab.scenarios.stage import NAME, remove
from tests.cli.conftest import DRCTL, Ran, clean_environment
from tests.cli.documents import check

pytestmark = pytest.mark.jvm


class Command:
    """Runs `drctl lab ... --dir` of the tests' lab."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder

    def __call__(self, *words: str) -> Ran:
        done = subprocess.run(
            [DRCTL, "lab", *words, "--dir", str(self.lab.root)],
            cwd=self.folder,
            env=clean_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def drctl_lab(lab: Lab, tmp_path: Path) -> Command:
    return Command(lab, tmp_path)


def test_starting_a_running_lab(drctl_lab: Command) -> None:
    ran = drctl_lab("up")
    assert ran.code == 0
    assert ran.stdout.startswith(
        f"Lab in {drctl_lab.lab.root}: all components answer\n  primary-1 "
    )
    assert "primary answers: 127.0.0.1:" in ran.stderr
    quiet = drctl_lab("up", "--quiet", "--output", "json")
    assert (quiet.code, quiet.stderr) == (0, "")
    assert check(quiet.document())["answering"] is True


def test_starting_with_other_settings(drctl_lab: Command) -> None:
    ran = drctl_lab("up", "--brokers", "3")
    assert (ran.code, ran.stdout) == (3, "")
    assert "has brokers 1, not 3" in ran.stderr
    assert "hint: run drctl lab up without options" in ran.stderr
    ran = drctl_lab("up", "--brokers", "2")
    assert (ran.code, ran.stdout) == (2, "")


def test_a_drill(drctl_lab: Command) -> None:
    hung = drctl_lab("freeze", "secondary", "-o", "json")
    assert hung.code == 0
    assert check(hung.document())["answering"] is False
    status = drctl_lab("status")
    assert (status.code, status.stderr) == (1, "")
    assert "secondary-1             frozen" in status.stdout
    assert drctl_lab("unfreeze", "secondary").code == 0
    assert drctl_lab("status").code == 0


def test_an_unknown_component(drctl_lab: Command) -> None:
    ran = drctl_lab("kill", "tertiary", "-o", "json")
    assert (ran.code, ran.stderr) == (2, "")
    assert check(ran.document())["error"]["kind"] == "UsageError"


def test_replication_pauses_and_resumes(drctl_lab: Command) -> None:
    paused = drctl_lab("replication", "pause", "-o", "json")
    assert paused.code == 0
    assert {c["state"] for c in check(paused.document())["connectors"]} == {"STOPPED"}
    resumed = drctl_lab("replication", "resume")
    assert resumed.code == 0
    assert "RUNNING" in resumed.stdout


def test_load_and_background_load(drctl_lab: Command) -> None:
    ran = drctl_lab("load", "--topic", "flights-command", "--count", "10", "-o", "json")
    document = check(ran.document())
    assert (ran.code, document["last"]["acknowledged"], document["running"]) == (0, 10, False)
    ran = drctl_lab("load", "--topic", "flights-command", "--rate", "50", "--background")
    assert ran.code == 0
    assert ran.stdout.startswith("load to primary: running, pid ")
    ran = drctl_lab("load", "--stop", "-o", "json")
    document = check(ran.document())
    assert (ran.code, document["running"], document["last"]["failed"]) == (0, False, 0)
    assert document["last"]["next_row"] == 10 + document["last"]["acknowledged"]


def test_env_writes_once(drctl_lab: Command) -> None:
    ran = drctl_lab("env", "-o", "json")
    document = check(ran.document())
    assert (ran.code, ran.stderr) == (0, "")
    file = Path(document["file"])
    assert (file.parent, file.name) == (drctl_lab.folder, "drctl.yaml")
    file.write_text("mine: true\n", encoding="utf-8")
    ran = drctl_lab("env")
    assert (ran.code, ran.stdout) == (3, "")
    assert file.read_text(encoding="utf-8") == "mine: true\n"


def test_env_with_a_failback_prepares_it_once(drctl_lab: Command) -> None:
    for _ in range(2):
        ran = drctl_lab("env", "--failback", "--output-file", "failback.yaml", "-o", "json")
        assert (ran.code, ran.stderr) == (0, "")
    written = Path(check(ran.document())["file"])
    link = load(written).link("main").settings
    assert link.replicator.reverse is not None
    assert link.replicator.reverse.connectors.source == NAME
    endpoint = drctl_lab.folder / "bootstrap"
    assert (
        endpoint.read_text(encoding="utf-8").strip() == drctl_lab.lab.cluster("primary").bootstrap
    )
    try:
        states = check(drctl_lab("status", "-o", "json").document())["connectors"]
        assert {each["name"]: each["state"] for each in states}[NAME] == "STOPPED"
    finally:
        remove(drctl_lab.lab)


def test_stopping_without_a_lab(tmp_path: Path) -> None:
    words = [str(DRCTL), "lab", "down", "-o", "json", "--dir", str(tmp_path / "absent")]
    done = subprocess.run(words, env=dict(os.environ), capture_output=True, text=True, check=False)
    document = check(Ran(done.returncode, done.stdout, done.stderr).document())
    assert (done.returncode, document["ended"], done.stderr) == (0, 0, "")
