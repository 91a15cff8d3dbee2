"""Results of `drctl gap` on this machine: in the state_dir, or in a folder that was named."""

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from drctl.cli.notices import notices
from drctl.model.errors import ConfigError, DrctlError, UsageError
from drctl.model.strict_json import read_json

if TYPE_CHECKING:
    from drctl.failback.gap_results import GapEvidence

NEWEST = 10
"""So many results of a link are looked at."""

_MOMENT = r"\d{8}T\d{6}\.\d{6}Z"
_EXAMPLES = 5


def named(folder: Path) -> "GapEvidence":
    """The result in a folder that the engineer named.

    Raises:
        UsageError: there is none.
        ConfigError: what is there is none.
    """
    if not (folder / "gap.json").is_file():
        raise UsageError(
            f"{folder} holds no gap.json", "name the folder that drctl gap --out was given"
        )
    return _read(folder)


def kept(state: Path, link: str) -> "tuple[GapEvidence, ...]":
    """Those of a link in the state_dir, the newest first; one that cannot be read is told of."""
    found = []
    for folder in _mine(state, link)[:NEWEST]:
        try:
            found.append(_read(folder))
        except DrctlError as error:
            notices().warn(error.message)
    return tuple(sorted(found, key=lambda each: each.started, reverse=True))


def newest(state: Path, link: str) -> Path | None:
    """The folder of a link's newest result in the state_dir; None where there is none."""
    return next(iter(_mine(state, link)), None)


def with_id(state: Path, link: str, ids: Collection[str]) -> "Iterator[GapEvidence]":
    """Those of a link that have one of these ids, however many are newer; the newest first."""
    for folder in _mine(state, link):
        with suppress(DrctlError):
            found = _read(folder)
            if found.id in ids:
                yield found


def _mine(state: Path, link: str) -> list[Path]:
    """Their folders, the newest first."""
    of_link = re.compile(f"{re.escape(link)}-{_MOMENT}")
    once = [f for f in _folders(state / "gap") if of_link.fullmatch(f.name)]
    again = [f for f in _folders(state / "gap" / link) if re.fullmatch(_MOMENT, f.name)]
    return sorted([*once, *again], key=lambda f: f.name.removeprefix(f"{link}-"), reverse=True)


def _folders(of: Path) -> "Iterator[Path]":
    return (each.parent for each in of.glob("*/gap.json"))


def _read(folder: Path) -> "GapEvidence":
    from drctl.failback.gap_results import read_gap
    from drctl.systems.parquet.samples import read_samples

    try:
        document = read_json((folder / "gap.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder}/gap.json cannot be read: {error}", "run drctl gap") from error
    found = read_gap(document, str(folder))
    if not found.unreplicated:
        return found
    return replace(found, samples=read_samples(folder / "records", _EXAMPLES))
