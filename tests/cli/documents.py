"""Validates drctl's documents against the JSON Schema of `drctl schema`."""

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from drctl.model.document import as_json
from drctl.views.schemas import schema_of


def check(document: object) -> dict[str, Any]:
    """Validate a document against its `schema`; return it as JSON has it."""
    found: dict[str, Any] = json.loads(json.dumps(as_json(document)))
    name = found["schema"].removeprefix("drctl/").removesuffix("/1")
    _validator(name).validate(found)
    return found


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(name), format_checker=Draft202012Validator.FORMAT_CHECKER)
