"""The folder that holds the journals of runs, looked at before there is one."""

import os
from pathlib import Path

from drctl.model.errors import ConfigError


class StateFolder:
    """Implements `drctl.model.journal_place.JournalPlace`; makes nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def where(self) -> str:
        """The folder."""
        return str(self._folder)

    def check(self) -> None:
        """See whether a run could write here: where it is missing, whether it could be made.

        Raises:
            ConfigError: it could not.
        """
        place = self._folder
        while not place.exists() and place != place.parent:
            place = place.parent
        if not place.is_dir():
            raise ConfigError(f"{place} is no folder", "set state_dir in drctl.yaml")
        if not os.access(place, os.W_OK | os.X_OK):
            raise ConfigError(
                f"this user may not write to {place}", "set state_dir in drctl.yaml to another one"
            )
