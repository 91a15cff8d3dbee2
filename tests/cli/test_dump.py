"""Which cluster `drctl dump-consumer-timestamps` reads by default."""

from pathlib import Path

import pytest

from drctl.app import network
from tests.cli.conftest import Run

CLUSTERS = """clusters:
  a: {bootstrap: "127.0.0.1:1"}
  b: {bootstrap: "127.0.0.1:2"}
  c: {bootstrap: "127.0.0.1:3"}
"""
COMMAND = "dump-consumer-timestamps"


def link(name: str, source: str, target: str) -> str:
    return f"  {name}: {{from: {source}, to: {target}, topics: [orders]}}\n"


@pytest.mark.parametrize(
    "links",
    ["", "links:\n" + link("one", "a", "b") + link("two", "c", "b")],
    ids=["no-links", "two-sources"],
)
def test_2_which_cluster(called: Run, tmp_path: Path, links: str) -> None:
    (tmp_path / "drctl.yaml").write_text(CLUSTERS + links)
    ran = called(COMMAND)
    assert (ran.code, ran.stdout) == (2, "")
    assert "source clusters: choose one" in ran.stderr
    assert "hint: add --cluster " in ran.stderr


def test_2_an_unknown_cluster(called: Run, tmp_path: Path) -> None:
    (tmp_path / "drctl.yaml").write_text(CLUSTERS)
    ran = called(COMMAND, "--cluster", "d")
    assert (ran.code, ran.stdout) == (2, "")
    assert "drctl.yaml has no cluster 'd'" in ran.stderr


@pytest.mark.slow
def test_5_the_source_of_all_links_does_not_answer(
    called: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here its targets respond; test_neither_responds covers unreachable ones."""
    monkeypatch.setattr(network, "neither_responds", lambda *_: None)
    links = "links:\n" + link("one", "b", "a") + link("two", "b", "c")
    (tmp_path / "drctl.yaml").write_text(CLUSTERS + links)
    ran = called(COMMAND)
    assert (ran.code, ran.stdout) == (5, "")
    assert "cluster b (127.0.0.1:2)" in ran.stderr
