"""The names of what a drill makes: reserved, so that whoever finds one knows what it is."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

MARK = "drctl-drill-"
"""Stands in the name of everything that a drill makes."""

_NAME = re.compile(rf"[^:]*?{MARK}(\d{{8}}t\d{{6}}z-[0-9a-f]{{6}})(?:-[a-z]+)?")
_TIME = "%Y%m%dt%H%M%Sz"


@dataclass(frozen=True, slots=True)
class Scratch:
    """What one drill makes, by name.

    Attributes:
        drill: begins with the time of its beginning, so that names sort by it.
        prefix: what the names begin with, so that the replicator copies them.
    """

    drill: str
    prefix: str = ""

    @property
    def topic(self) -> str:
        """That is written to, copied and read from."""
        return f"{self.prefix}{MARK}{self.drill}-records"

    @property
    def canary(self) -> str:
        """That proves on the target that it takes writes."""
        return f"{self.prefix}{MARK}{self.drill}-canary"

    @property
    def group(self) -> str:
        """That reads."""
        return f"{self.prefix}{MARK}{self.drill}"

    @property
    def principal(self) -> str:
        """Whom the fence denies; nobody logs in under that name."""
        return f"User:{MARK}{self.drill}"


def new_drill(now: datetime, token: str) -> str:
    """The name of a drill that begins now.

    Args:
        token: six random hex digits.
    """
    return f"{now.astimezone(UTC).strftime(_TIME)}-{token}"


def drill_of(name: str) -> str | None:
    """The drill that made what is called so; None where none did."""
    found = _NAME.fullmatch(name)
    return found[1] if found else None


def began(drill: str) -> datetime:
    """When it began."""
    return datetime.strptime(drill.partition("-")[0], _TIME).replace(tzinfo=UTC)
