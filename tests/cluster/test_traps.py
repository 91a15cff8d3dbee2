"""Every trap on real brokers: `drctl gap` says what was worked out by hand."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.cluster.conftest import NewDrctl, link_section
from tests.cluster.filling import Clock
from tests.cluster.scenario import Analysed, Scenario, topic_of
from tests.cluster.traps import TRAPS, Trap
from tests.lab.cluster_under_test import ClusterUnderTest

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="session")
def analysed(
    primary: ClusterUnderTest,
    secondary: ClusterUnderTest,
    prefix: str,
    clock: Clock,
    new_drctl: NewDrctl,
) -> Iterator[Analysed]:
    scenario = Scenario(prefix, TRAPS)
    scenario.fill(primary, secondary, clock)
    drctl = new_drctl({"main": link_section([scenario.pattern], ignore_headers=["trace"])})
    ended = drctl.gap()
    assert ended.code == 1, ended.stderr
    yield Analysed(scenario, ended, ended.document())


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_trap(analysed: Analysed, trap: Trap) -> None:
    assert analysed.numbers(trap) == replace(trap.expected, notes=())
    notes = topic_of(analysed.document, analysed.scenario.topic(trap))["notes"]
    assert len(notes) == len(trap.expected.notes), notes
    for words, note in zip(trap.expected.notes, notes, strict=True):
        assert words in note
