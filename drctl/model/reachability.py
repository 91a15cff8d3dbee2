"""Whether a cluster that gave no answer may still be alive."""

from dataclasses import dataclass

from drctl.model.errors import ConfigError, ExitCode, Unreachable
from drctl.model.topology import Unavailable


class NotLetIn(Unreachable):
    """Somebody is there, and does not let drctl in: a wrong password, a certificate.

    It is no answer, and yet no sign that the cluster is lost: how drctl logs in is to be corrected.
    """

    exit_code = ExitCode.USAGE

    @property
    def kind(self) -> str:
        """For scripts it is an error of the configuration like any other."""
        return ConfigError.__name__


@dataclass(frozen=True, slots=True)
class Silent(Unavailable):
    """Nothing came back: nobody may be there."""


@dataclass(frozen=True, slots=True)
class Locked(Unavailable):
    """Somebody is there, and does not let drctl in."""
