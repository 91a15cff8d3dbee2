"""The prechecks that a failback may override."""

import pytest

from drctl.app.failback import known_overrides
from drctl.model.errors import UsageError
from drctl.offsets import applying
from drctl.steps import failback


@pytest.mark.parametrize("name", [*applying.OVERRIDABLE, *failback.OVERRIDABLE])
def test_prechecks_that_can_be_overridden(name: str) -> None:
    assert known_overrides([f"{name}=agreed"]) == {name: "agreed"}


def test_no_other_precheck_can_be_overridden() -> None:
    with pytest.raises(UsageError):
        known_overrides(["unclean=agreed"])
