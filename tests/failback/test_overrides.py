"""The prechecks that a failback may override."""

import pytest

from drctl.app.failback import known_overrides
from drctl.model.errors import UsageError
from drctl.offsets import applying
from drctl.steps import failback


@pytest.mark.parametrize("name", [*applying.OVERRIDABLE, *failback.OVERRIDABLE])
def test_prechecks_of_offsets_and_of_the_failback(name: str) -> None:
    assert known_overrides([f"{name}=agreed"]) == {name: "agreed"}


def test_no_others() -> None:
    with pytest.raises(UsageError):
        known_overrides(["unclean=agreed"])
