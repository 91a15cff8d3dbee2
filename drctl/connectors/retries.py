"""The settings of connectors for their own retries and backoff."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from drctl.model.errors import DrctlError
from drctl.model.replication import Connector

_WORDS = frozenset({"retry", "retries", "retriable", "backoff", "attempts"})
_SHOWN = re.compile(r"-?\d+|true|false")
"""Other values are not shown: drctl does not know whether they are secret."""


@dataclass(frozen=True, slots=True)
class RetrySetting:
    """A setting of a connector about retries or backoff.

    Attributes:
        name: for example `errors.max.retries`.
        value: as the connector's configuration has it, or the default.
        default: whether it is the default of the installed plugin.
    """

    name: str
    value: str
    default: bool

    @property
    def words(self) -> str:
        """In words."""
        return f"{self.name}={self.value}" + (" (default)" if self.default else "")


def retry_settings(
    connectors: Iterable[Connector], defaults: Callable[[str], Mapping[str, str]]
) -> Mapping[str, tuple[RetrySetting, ...]]:
    """The settings about retries and backoff of each connector, sorted by name.

    Args:
        defaults: asks the workers for the default values of a plugin's settings. If it fails, only
            what the configuration has is known.
    """
    known: dict[str, Mapping[str, str]] = {}
    found = {}
    for each in connectors:
        if each.plugin not in known:
            try:
                known[each.plugin] = defaults(each.plugin) if each.plugin else {}
            except DrctlError:
                known[each.plugin] = {}
        default = {name: RetrySetting(name, v, True) for name, v in known[each.plugin].items()}
        given = {name: RetrySetting(name, v, False) for name, v in each.config.items()}
        both = {**default, **given}
        found[each.name] = tuple(
            setting for name, setting in sorted(both.items()) if _is_shown(setting)
        )
    return found


def _is_shown(setting: RetrySetting) -> bool:
    about = not _WORDS.isdisjoint(re.split(r"[._]", setting.name))
    return about and _SHOWN.fullmatch(setting.value) is not None
