"""How a scan ends when it cannot be finished."""

from drctl.model.errors import Unknown


class ScanFailed(Unknown):
    """The comparer could not read something to its end; what it had found is void."""
