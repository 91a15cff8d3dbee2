"""The parts of a scenario that need no cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from drctl.config.endpoints import FileEndpoint
from drctl.config.loading import read
from drctl.config.schema import LinkConfig
from drctl.lab.environment import describe, in_words, write_environment
from drctl.lab.lab import Lab
from drctl.lab.parts import Parts
from drctl.lab.scenarios.clients import EndpointFile
from drctl.lab.scenarios.lost_primary import FENCE_PRIMARY, RUNBOOK
from drctl.lab.scenarios.stage import Stage, Tracker
from drctl.lab.settings import LabSettings
from drctl.model.errors import Stopped, Unknown
from drctl.runbook.linting import lint
from tests.cli.documents import check


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path, LabSettings())


def link_of(text: str, folder: Path) -> LinkConfig:
    return read(text, folder / "drctl.yaml").link(None).settings


def test_the_configuration_of_a_lab_loads_with_and_without_an_endpoint(
    parts: Parts, tmp_path: Path
) -> None:
    usual = link_of(describe(parts), tmp_path)
    assert (usual.topics, usual.groups, usual.endpoints) == (("flights.*",), ("orders-app.*",), ())
    text = describe(parts, ("flights",), ("orders-app-a", "orders-app-b"), "clients/bootstrap")
    link = link_of(text, tmp_path)
    assert (link.topics, link.groups) == (("flights",), ("orders-app-a", "orders-app-b"))
    (endpoint,) = link.endpoints
    assert isinstance(endpoint, FileEndpoint)
    assert str(endpoint.path) == "clients/bootstrap"


def test_the_reverse_connector_can_be_named(parts: Parts, tmp_path: Path) -> None:
    reverse = link_of(describe(parts, reverse="back"), tmp_path).replicator.reverse
    assert reverse is not None
    assert reverse.connectors.source == "back"
    assert link_of(describe(parts), tmp_path).replicator.reverse is None


def test_what_is_prepared_for_a_failback_is_reported(parts: Parts, tmp_path: Path) -> None:
    file = tmp_path / "drctl.yaml"
    found = write_environment(parts, file, endpoint="bootstrap", reverse="back")
    check(found.to_json())
    lines = [line.split() for line in in_words(found).splitlines()]
    assert ["reverse", "connector", "back"] in lines
    assert ["endpoint", str(tmp_path / "bootstrap")] in lines
    file.unlink()
    bare = write_environment(parts, file)
    check(bare.to_json())
    assert {"reverse", "endpoint"}.isdisjoint(in_words(bare).split())


def test_applications_follow_the_endpoint_file(parts: Parts, tmp_path: Path) -> None:
    endpoint = EndpointFile(tmp_path / "bootstrap", parts.clusters)
    for name in ("secondary", "primary"):
        endpoint.point_to(name)
        assert endpoint.cluster().name == name
    endpoint.file.write_text("127.0.0.1:9\n", encoding="utf-8")
    with pytest.raises(Stopped, match="does not name a cluster of the lab"):
        endpoint.cluster()


def test_the_runbook_that_fences_the_primary_passes_lint(tmp_path: Path) -> None:
    path = tmp_path / f"{FENCE_PRIMARY}.yaml"
    path.write_text(RUNBOOK, encoding="utf-8")
    assert lint(path).lines == ()


def test_a_stage_prints_the_output_of_drctl_and_returns_its_exit_code(tmp_path: Path) -> None:
    printed_lines: list[str] = []
    with (tmp_path / "shown").open("w+", encoding="utf-8") as shown:
        stage = Stage(Lab(tmp_path / "lab"), tmp_path, printed_lines.append, ("--no-color",), shown)
        assert stage.drctl("schema", "gap") == 0
        assert stage.drctl("schema", "nothing", "-o", "json") == 2
        shown.seek(0)
        printed = shown.read()
    assert '"$id": "drctl/gap/1"' in printed
    assert '"code": 2' in printed
    assert printed_lines == ["$ drctl schema gap", "$ drctl schema nothing -o json"]
    assert stage.reports() == ()
    with pytest.raises(Unknown, match="wrote no gap"):
        stage.answer(tmp_path)


def test_a_tracker_that_exited_is_reported(tmp_path: Path) -> None:
    """Without a configuration, drctl exits at once."""
    stage = Stage(Lab(tmp_path / "lab"), tmp_path, lambda _line: None)
    with stage.tracked() as tracker:
        tracker.process.wait(60)
        with pytest.raises(Stopped, match="exited with code 2"):
            tracker.passes()


def test_only_complete_passes_count(tmp_path: Path) -> None:
    log = tmp_path / "lines"
    log.write_text('{"complete": true}\n{"complete": false}\n{"compl', encoding="utf-8")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as alive:
        assert Tracker(alive, log).passes() == 1
