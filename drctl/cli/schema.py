"""`drctl schema`: the JSON Schema of each document that drctl prints."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from drctl.cli.console import console
from drctl.model.errors import UsageError
from drctl.model.lines import Lines

_FOLDER = Path(__file__).parent.parent / "schemas"
_FILE = re.compile(r"(?P<name>.+)-(?P<version>\d+)\.json")


def schema(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="What follows drctl/ in a document's `schema`: gap, or gap/1."
        ),
    ] = "",
) -> None:
    """Print the JSON Schema of a document of drctl.

    Without a version, that of the newest. With --output json it is the field json_schema of a
    document of its own.
    """
    versions = _versions()
    wanted, _, number = name.removeprefix("drctl/").partition("/")
    newest = max(versions.get(wanted, [0]))
    version = int(number) if number.isdecimal() else newest if not number else 0
    if version not in versions.get(wanted, []):
        raise UsageError(*_unknown(name, versions))
    text = (_FOLDER / f"{wanted}-{version}.json").read_text(encoding="utf-8")
    console().result(
        Lines(text),
        {
            "schema": "drctl/schema/1",
            "name": wanted,
            "version": version,
            "json_schema": json.loads(text),
        },
    )


def _versions() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for path in sorted(_FOLDER.glob("*.json")):
        if match := _FILE.fullmatch(path.name):
            found.setdefault(match["name"], []).append(int(match["version"]))
    return found


def _unknown(name: str, versions: dict[str, list[int]]) -> tuple[str, str]:
    from difflib import get_close_matches

    near = get_close_matches(name, versions, n=1)
    message = f"there is no document {name!r}" if name else "which document?"
    if near:
        message += f"; did you mean '{near[0]}'?"
    return message, f"documents: {', '.join(versions)}"
