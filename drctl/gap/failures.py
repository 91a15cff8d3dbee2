"""How a scan ends when it cannot be finished."""

from drctl.model.errors import Unknown

_FULL = ("No space left on device", "File too large", "Disk quota exceeded")

_MAKE_ROOM = "free space on the disks of --out and of Spark's scratch files, and run it again"
_RUN_AGAIN = "see that all brokers run, and run drctl gap again; with --verbose Spark says more"


class ScanFailed(Unknown):
    """The comparer could not read something to its end; what it had found is void.

    Attributes:
        cause: why, in words for a person.
    """

    def __init__(self, cause: str) -> None:
        self.cause = cause
        full = any(words in cause for words in _FULL)
        message = f"the records could not be read to their end, nothing was compared: {cause}"
        super().__init__(message, _MAKE_ROOM if full else _RUN_AGAIN)
