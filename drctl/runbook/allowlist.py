"""The commands and prechecks that runbooks may use under a configuration."""

from collections.abc import Sequence
from dataclasses import dataclass

from drctl.checks.registry import CHECKS
from drctl.config.configuration import Config

ANY_WORD, ANY_WORDS = "*", "..."


@dataclass(frozen=True, slots=True)
class Allowlist:
    """Allowed commands and known prechecks.

    Attributes:
        commands: None without a configuration; then every command is allowed.
        prechecks: the names that `check` accepts.
    """

    commands: tuple[tuple[str, ...], ...] | None = None
    prechecks: frozenset[str] = frozenset(check.name for check in CHECKS)

    def allows(self, argv: Sequence[str]) -> bool:
        """Whether runbooks may run this command."""
        return self.commands is None or any(_matches(argv, words) for words in self.commands)


def allowlist_of(config: Config | None, prechecks: Sequence[str] = ()) -> Allowlist:
    """The allowlist of a configuration.

    Args:
        prechecks: names allowed in addition to the registered checks.
    """
    known = Allowlist().prechecks | frozenset(prechecks)
    return Allowlist(config.file.commands if config else None, known)


def _matches(argv: Sequence[str], words: Sequence[str]) -> bool:
    """`*` matches one word, a trailing `...` any number of words; neither matches an option."""
    open_end = words[-1] == ANY_WORDS
    fixed = words[:-1] if open_end else words
    if len(argv) < len(fixed) or (len(argv) > len(fixed) and not open_end):
        return False
    rest = argv[len(fixed) :]
    return all(
        word == given or (word == ANY_WORD and not given.startswith("-"))
        for word, given in zip(fixed, argv, strict=False)
    ) and not any(given.startswith("-") for given in rest)
