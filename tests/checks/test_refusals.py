"""Why a failover is refused: a precheck with a reason, a remedy and an override."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from drctl.checks.diagnosis import blockers_among, overridable
from drctl.checks.registry import PRECHECKS
from drctl.model.finding import Status
from drctl.model.loss import Mode
from tests.checks.test_cases import FOLDER, scenarios

REFUSED: Mapping[str, str] = {
    "target-offline-partitions": "target",
    "target-under-min-isr": "target",
    "target-no-controller": "target",
    "replication-lag": "replication",
    "source-alive": "source",
    "groups-active-on-target": "groups",
    "topics-missing-on-target": "parity",
    "fewer-partitions-on-target": "parity",
    "topic-config-parity": "parity",
    "acl-parity": "acls",
    "hanging-transactions": "source",
    "backlog-near-retention": "retention",
    "connect-unreachable": "replication",
    "journal-not-writable": "journal",
    "replication-loops": "doctor-cycles",
}
"""The file with the cases of each precheck."""

FINAL = {"journal-not-writable"}
"""Without a journal a run could be neither resumed nor rolled back."""


@pytest.mark.parametrize("name", REFUSED)
def test_precheck_refuses_with_a_remedy_and_can_be_overridden(name: str) -> None:
    of = REFUSED[name]
    file: Path = FOLDER / f"{of if of.startswith('doctor') else f'prechecks-{of}'}.yaml"
    reported = [f for _, _, found in scenarios(file) for f in found if f.check == name]
    failing = [each for each in reported if each.status is Status.FAIL]
    assert failing, "no case shows it"
    for each in failing:
        assert each.reason
        assert each.impact
        assert each.remedy
    precheck = PRECHECKS[name].prechecks
    assert precheck is not None
    for mode in precheck.modes & {Mode.PLANNED} or precheck.modes:
        assert blockers_among(failing, (), mode) == tuple(failing)
        passed = blockers_among(failing, {name: "agreed with the owner"}, mode)
        assert passed == (tuple(failing) if name in FINAL else ())
    assert (name in overridable()) is (name not in FINAL)
