"""A round with three brokers per cluster, one of which dies in either direction.

In-sync sets shrink, leaders and coordinators move, and a fence must be verified on a broker that
has just died or returned.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from drctl.lab.lab import Lab
from drctl.lab.processes import lab_mark, marked_processes
from tests.soak.__main__ import settings
from tests.soak.round_plan import Fault, Injection, Out, RoundPlan
from tests.soak.test_soak import WITH_FAILBACK, played

pytestmark = [pytest.mark.jvm, pytest.mark.nightly, pytest.mark.timeout(1200)]

ONE_OF_THREE = RoundPlan(
    seed=0,
    out=Out.PLANNED,
    backlog=0,
    policy="quarantine",
    on_failover=(Injection(Fault.PRIMARY_BROKER, at=0.2, after_s=0.0, lasts_s=12.0, node=1),),
    on_failback=(
        Injection(Fault.PRIMARY_BROKER, at=0.31, after_s=0.0, lasts_s=8.0, node=2),
        Injection(Fault.SECONDARY_BROKER, at=0.44, after_s=0.0, lasts_s=12.0, node=3),
    ),
    brokers=3,
)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with three brokers per cluster; asserted to be down at the end."""
    root = tmp_path_factory.mktemp("wide") / "lab"
    opened = Lab(root)
    try:
        opened.up(settings(brokers=3))
        yield opened
    finally:
        opened.down()
        assert not marked_processes(lab_mark(root))


def test_a_broker_of_three_dies_in_each_direction(wide: Lab, tmp_path: Path) -> None:
    found = played(ONE_OF_THREE, WITH_FAILBACK, wide, tmp_path / "round")
    assert [each.injection.fault for each in found.injected] == [
        Fault.PRIMARY_BROKER,
        Fault.PRIMARY_BROKER,
        Fault.SECONDARY_BROKER,
    ]
