"""Checks a document of drctl against the JSON Schema that ships with it."""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

import drctl

FOLDER = Path(drctl.__file__).parent / "schemas"


def check(document: dict[str, Any]) -> dict[str, Any]:
    """The same document; fails where it is not what its `schema` promises."""
    name = document["schema"].removeprefix("drctl/").replace("/", "-")
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(
        document
    )
    return document
