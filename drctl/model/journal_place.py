"""Where a run would write its journal to."""

from typing import Protocol


class JournalPlace(Protocol):
    """Looked at before a run; nothing is written."""

    @property
    def where(self) -> str:
        """The file or topic, for messages."""

    def check(self) -> None:
        """See whether a run could write here, as far as that can be told without writing.

        Raises:
            ConfigError: it is not as it must be, or may not be written.
            Unreachable: it did not answer.
            Unknown: it could not be looked at.
        """
