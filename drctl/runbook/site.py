"""What a runbook may use at a site: its commands, its prechecks."""

from collections.abc import Sequence
from dataclasses import dataclass

from drctl.checks.registry import CHECKS
from drctl.config.configuration import Config

ANY, MORE = "*", "..."


@dataclass(frozen=True, slots=True)
class Site:
    """What is known of it.

    Attributes:
        commands: that runbooks may run; None where that is not known.
        prechecks: the names that `check` may ask for.
    """

    commands: tuple[tuple[str, ...], ...] | None = None
    prechecks: frozenset[str] = frozenset(check.name for check in CHECKS)

    def allows(self, argv: Sequence[str]) -> bool:
        """Whether a command may be run; where nothing is known, nothing is refused."""
        return self.commands is None or any(_fits(argv, words) for words in self.commands)


def site_of(config: Config | None, prechecks: Sequence[str] = ()) -> Site:
    """The site of a configuration.

    Args:
        prechecks: beside the checks.
    """
    return Site(config.file.commands if config else None, Site().prechecks | frozenset(prechecks))


def _fits(argv: Sequence[str], words: Sequence[str]) -> bool:
    """`*` is one word, `...` at the end any more; neither is an option."""
    open_end = words[-1] == MORE
    fixed = words[:-1] if open_end else words
    if len(argv) < len(fixed) or (len(argv) > len(fixed) and not open_end):
        return False
    rest = argv[len(fixed) :]
    return all(
        word == given or (word == ANY and not given.startswith("-"))
        for word, given in zip(fixed, argv, strict=False)
    ) and not any(given.startswith("-") for given in rest)
