"""Leftovers of drills: those of ended drills are deleted, those of running ones are kept."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from drctl.app import drill_adapters
from drctl.cli import drill_stage
from drctl.config.configuration import Config
from drctl.config.loading import read
from drctl.drill.cleaning import Scratch, new_drill
from drctl.drill.result import Verdict
from drctl.drill.result import read as read_history
from tests.drill.test_cleanup import Cluster

YAML = """
clusters: {a: {bootstrap: "127.0.0.1:1"}, b: {bootstrap: "127.0.0.1:2"}}
links: {main: {from: a, to: b, topics: [".*"]}}
"""
JUST_NOW = new_drill(datetime.now(UTC), "000000")
LONG_AGO = new_drill(datetime.now(UTC) - timedelta(hours=7), "000000")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return read(YAML, tmp_path / "drctl.yaml")


def found(config: Config, drill: str, *, everything: bool = False) -> drill_stage.Leftovers:
    scratch = Scratch(drill)
    source, target = Cluster([scratch.topic, "orders"], [], []), Cluster([], [scratch.group], [])
    ports = (source.ports("a"), target.ports("b"))
    return drill_stage.leftovers(config, *ports, everything=everything)


@pytest.mark.parametrize(
    ("drill", "dead"), [(JUST_NOW, False), (LONG_AGO, True)], ids=["just now", "long ago"]
)
def test_a_drill_of_another_host_is_kept_for_a_while(
    config: Config, drill: str, dead: bool
) -> None:
    seen = found(config, drill)
    assert (drill in seen.dead, drill in seen.spared) == (dead, not dead)
    assert len(seen.resources) == (2 if dead else 0)
    assert found(config, drill, everything=True).dead == {drill}


def test_a_running_drill_of_this_host_is_kept(config: Config) -> None:
    drill_stage.note(config, JUST_NOW, config.link("main"), None)
    place = drill_adapters.folder(config) / JUST_NOW / drill_stage.ALIVE
    with drill_adapters.alive(place):
        seen = found(config, JUST_NOW, everything=True)
        assert (seen.dead, set(seen.spared)) == (frozenset(), {JUST_NOW})
        assert drill_stage.revert_faults(config) == []
    assert found(config, JUST_NOW).dead == {JUST_NOW}


@pytest.mark.slow
def test_a_fault_lasts_until_it_is_removed(config: Config, tmp_path: Path) -> None:
    gone = str(tmp_path / "none")
    fault = {"fault": "pause-source", "part": "primary", "folder": gone}
    drill_stage.note(config, LONG_AGO, config.link("main"), fault)
    drill_stage.note(config, JUST_NOW, config.link("main"), None)
    with drill_adapters.alive(drill_adapters.folder(config) / LONG_AGO / drill_stage.ALIVE):
        assert drill_stage.active_faults(config) == [], "a running drill removes its fault itself"
    words = f"fault pause-source of lab component primary, by drill {LONG_AGO}"
    assert drill_stage.active_faults(config) == [words]
    assert set(drill_stage.revert_faults(config)) == {LONG_AGO, JUST_NOW}
    assert drill_stage.active_faults(config) == []
    dead, _ = read_history(drill_adapters.history(config).lines())
    assert {past.drill: past.inject for past in dead} == {LONG_AGO: "pause-source", JUST_NOW: ""}


def test_ended_drills_are_recorded_once(config: Config) -> None:
    (drill_adapters.folder(config) / "notes").mkdir(parents=True)
    (drill_adapters.folder(config) / "notes" / drill_stage.NOTE).write_text("{}")
    drill_stage.note(config, LONG_AGO, config.link("main"), None)
    assert drill_stage.revert_faults(config) == [LONG_AGO]
    assert drill_stage.revert_faults(config) == []
    (past,), damaged = read_history(drill_adapters.history(config).lines())
    assert (past.drill, past.link, past.verdict, damaged) == (
        LONG_AGO,
        "main",
        Verdict.INTERRUPTED,
        0,
    )
