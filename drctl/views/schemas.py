"""Generates the JSON Schema of each document from its type."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from importlib import import_module
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, is_typeddict

from drctl.model.document import MAYBE, OPTIONAL, keys_of

DOCUMENTS: Mapping[str, str] = {
    "drctl.connectors.applying": "connect-offsets",
    "drctl.connectors.diagnosis": "connect-status",
    "drctl.connectors.documents": "connect-offsets-apply connect-offsets-plan connect-recover"
    " connect-recover-plan",
    "drctl.elections.documents": "elect elect-plan elect-show",
    "drctl.failback.answer": "order",
    "drctl.lab.environment": "lab-env",
    "drctl.lab.loads": "lab-load",
    "drctl.lab.status": "lab",
    "drctl.model.estimate": "gap-estimate",
    "drctl.model.event_duplicates": "duplicates",
    "drctl.model.gap": "gap",
    "drctl.offsets.consumer_timestamps": "consumer-timestamp",
    "drctl.offsets.results": "offsets-apply offsets-plan",
    "drctl.offsets.snapshot": "offsets-snapshot",
    "drctl.offsets.translation_json": "offsets offsets-explain",
    "drctl.reconcile.documents": "reconcile",
    "drctl.views.command_documents": "completion error help init lab-down lab-run runbook"
    " runbook-lint runbooks schema schemas version",
    "drctl.views.drill_text": "drill drill-clean drill-history drill-plan",
    "drctl.views.findings": "doctor",
    "drctl.views.journal_text": "journal",
    "drctl.views.plan_text": "plan",
    "drctl.views.run_json": "report run",
    "drctl.views.status_text": "status",
    "drctl.views.tracking": "offsets-track",
}
"""The documents of each module."""

_PLAIN: Mapping[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {8}\S.*)*)", re.MULTILINE)


def names() -> Sequence[str]:
    """Return the names of all documents, as in `drctl/NAME/1`."""
    return sorted(name for group in DOCUMENTS.values() for name in group.split())


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a document."""
    return json_schema(document_type(name))


def document_type(name: str) -> type:
    """Return the type of a document."""
    module = import_module(next(m for m, group in DOCUMENTS.items() if name in group.split()))
    return next(
        each
        for each in vars(module).values()
        if isinstance(each, type) and schema_name(each) == f"drctl/{name}/1"
    )


def schema_name(kind: type) -> str:
    """Return the value of the field `schema`; empty if there is none."""
    literal = getattr(kind, "__annotations__", {}).get("schema") if is_typeddict(kind) else None
    return str(get_args(literal)[0]) if literal else getattr(kind, "SCHEMA", "")


def json_schema(kind: type) -> dict[str, Any]:
    """Generate a schema of draft 2020-12 that allows no additional properties."""
    inner: dict[str, Any] = {}
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_name(kind),
        **_object(kind, inner),
    }
    return {**made, "$defs": inner} if inner else made


def _object(kind: type, inner: dict[str, Any]) -> dict[str, Any]:
    text = (kind.__doc__ or "").split("\n\n")
    about = {name: " ".join(words.split()) for name, words in _described(kind)}
    schema = schema_name(kind)
    properties: dict[str, Any] = {"schema": {"const": schema}} if schema else {}
    required = list(properties)
    for key, name, hint in keys_of(kind):
        properties[key] = _of(_present(hint) if OPTIONAL in get_args(hint) else hint, inner)
        if name in about:
            properties[key] = {**properties[key], "description": about[name].rstrip(".")}
        if key != "schema" and not _may_be_absent(hint):
            required.append(key)
    return {
        "title": " ".join(text[0].split()).rstrip("."),
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


def _may_be_absent(hint: Any) -> bool:
    return get_origin(hint) is NotRequired or any(
        each in (OPTIONAL, MAYBE) for each in get_args(hint)[1:]
    )


def _present(hint: Any) -> Any:
    """Return the type of a key that is omitted if its value is None."""
    args = [each for each in get_args(get_args(hint)[0]) if each is not NoneType]
    return Annotated[(Union[tuple(args)], *get_args(hint)[1:])]  # noqa: UP007


def _described(kind: type) -> Iterator[tuple[str, str]]:
    for each in reversed(kind.__mro__):
        _, _, attributes = cleandoc(each.__doc__ or "").partition("Attributes:\n")
        yield from _ATTRIBUTE.findall(attributes)


def _of(hint: Any, inner: dict[str, Any]) -> dict[str, Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _of(args[0], inner) | {
            key: value for key, value in args[1:] if key not in ("optional", "maybe", "key")
        }
    if origin is NotRequired:
        return _of(args[0], inner)
    if origin in (Union, UnionType):
        return _one_of([_of(each, inner) for each in args])
    if origin is Literal:
        return {"const": args[0]} if len(args) == 1 else {"enum": list(args)}
    if hint in _PLAIN:
        return dict(_PLAIN[hint])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    if origin is tuple and args[-1] is not Ellipsis:
        items = [_of(each, inner) for each in args]
        size = {"minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "prefixItems": items, "items": False, **size}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(args, inner)
    if origin is not None:
        return {"type": "array", "items": _of(args[0], inner)}
    if hint.__name__ not in inner:
        inner[hint.__name__] = {}
        inner[hint.__name__] = _object(hint, inner)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _mapping(args: tuple[Any, ...], inner: dict[str, Any]) -> dict[str, Any]:
    """Describe a mapping; if its keys are an enumeration, all of them are required."""
    keys, values = _of(args[0], inner).get("enum"), _of(args[1], inner)
    if keys is None:
        return {"type": "object", "additionalProperties": values}
    properties = dict.fromkeys(keys, values)
    closed = {"additionalProperties": False, "required": keys}
    return {"type": "object", **closed, "properties": properties}


def _one_of(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Join plain types in one `type`, enumerations in one `enum`; either may include null."""
    null = {"type": "null"}
    if all("enum" in each or "const" in each or each == null for each in kinds):
        listed = (each.get("enum", [each.get("const")]) for each in kinds)
        return {"enum": [value for values in listed for value in values]}
    if all("type" in each and "properties" not in each for each in kinds):
        named = [each["type"] for each in kinds]
        return {**{key: value for each in kinds for key, value in each.items()}, "type": named}
    return {"anyOf": kinds}
