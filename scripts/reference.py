"""Writes the generated parts of docs/reference from the code: `python -m scripts.reference`.

The text between `<!-- generated: NAME -->` and `<!-- end -->` in a page is replaced.
tests/docs/test_reference.py fails if a page is not up to date.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from drctl.checks.check import Family
from drctl.checks.registry import CHECKS, PRECHECKS
from drctl.cli.help_pages import CommandReference, ParameterReference, reference
from drctl.config.endpoints import SECTIONS
from drctl.config.schema import ConfigFile
from drctl.model.errors import ExitCode
from drctl.model.loss import Mode
from drctl.runbook.specs import SPECS
from drctl.views.schemas import names, schema_of
from drctl.views.status_text import FAMILIES, PREFIX

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
CASES = ROOT / "tests" / "checks" / "cases"
REQUIRED = "required"
_BLOCK = re.compile(r"<!-- generated: ([a-z-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
_FIX = re.compile(r"^ +(?:remedy|fix): (.+)$", re.MULTILINE)

HEADINGS = {
    **{family: family.value.replace("-", " ").capitalize() for family in Family},
    Family.MIRRORMAKER: "MirrorMaker 2",
    Family.REPLICATOR: "Confluent Replicator",
}


def page(path: Path) -> str:
    """A page of the reference with its generated parts up to date."""
    text = path.read_text(encoding="utf-8")

    def made(match: re.Match[str]) -> str:
        lines = "\n".join(BLOCKS[match[1]](match[2]))
        return f"<!-- generated: {match[1]} -->\n\n{lines}\n\n<!-- end -->"

    return _BLOCK.sub(made, text)


def table(heading: str, found: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table."""
    columns = heading.split("|")
    yield "| " + " | ".join(columns) + " |"
    yield "|---" * len(columns) + "|"
    for row in found:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


# Commands


def commands(_: str) -> Iterator[str]:
    """Every command with its usage, help, examples and options."""
    for each in reference():
        if each.path != "drctl":
            yield from _command(each)


def _command(each: CommandReference) -> Iterator[str]:
    yield from (f"{'#' * each.path.count(' ')}# `{each.path}`", "")
    for paragraph in (f"{each.summary}.", *each.description):
        yield from (_escaped(paragraph), "")
    yield from (f"```text\n{each.usage}\n```", "")
    if each.examples:
        yield from ("```sh", *each.examples, "```", "")
    if rows := [*each.arguments, *each.options]:
        yield from table("option|meaning", map(_option, rows))
        yield ""
    if each.exit_codes:
        codes = ((code, _escaped(meaning)) for code, meaning in each.exit_codes)
        yield from table("exit code|meaning", codes)
        yield ""


def _option(each: ParameterReference) -> tuple[str, str]:
    names, text = each.row
    return f"`{names}`", _escaped(text)


def global_options(_: str) -> Iterator[str]:
    """The options of every command."""
    yield from table("option|meaning", map(_option, next(reference()).global_options))


def _escaped(text: str) -> str:
    """Escape Markdown; inline code stays code."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        parts[number] = re.sub(r"([*_])", r"\\\1", parts[number]).replace("<", "&lt;")
    return "`".join(parts)


# Exit codes


def exit_codes(before: str) -> Iterator[str]:
    """Codes and names; their meanings are kept from the page."""
    known = _kept(before, 2)
    found = ((str(c.value), c.name, known.get(str(c.value), "")) for c in ExitCode)
    yield from table("code|name|meaning", found)


def _kept(before: str, column: int) -> Mapping[str, str]:
    cells = [re.split(r"(?<!\\)\|", line.strip("| ")) for line in before.splitlines()]
    return {
        row[0].strip().strip("`"): row[column].strip().replace("\\|", "|")
        for row in cells
        if len(row) > column
    }


# Configuration


def keys(before: str) -> Iterator[str]:
    """Keys and defaults; their meanings are kept from the page."""
    known = _kept(before, 2)
    found = ((f"`{k}`", shown(d), known.get(k, "")) for k, d in keys_of(ConfigFile))
    yield from table("key|default|meaning", found)


def endpoint_keys(before: str) -> Iterator[str]:
    """Keys and defaults of each kind of endpoint."""
    for kind, section in SECTIONS.items():
        part = before.partition(f"### {kind}\n")[2].partition("\n### ")[0]
        known = _kept(part, 2)
        found = ((f"`{k}`", shown(d), known.get(k, "")) for k, d in keys_of(section) if k != "kind")
        yield from [f"### {kind}", "", *table("key|default|meaning", found), ""]


def shown(default: Any) -> str:
    """A default as YAML."""
    if default is REQUIRED:
        return str(REQUIRED)
    if default is None:
        return "none"
    if isinstance(default, str) and not default.isprintable():
        return f"`{json.dumps(default)}`"
    text = yaml.safe_dump(plain(default), default_flow_style=True, width=1000)
    return f"`{text.partition(chr(10))[0]}`"


def plain(default: Any) -> Any:
    """A default as a YAML value."""
    if isinstance(default, Mapping):
        return dict(default)
    return list(default) if isinstance(default, tuple) else default


def keys_of(model: type[BaseModel], given: Any = None, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every key with its default; sections are flattened."""
    for name, field in model.model_fields.items():
        here = f"{path}{field.alias or name}"
        if name == "endpoints":
            yield f"{here}[].kind", REQUIRED
            continue
        default = getattr(given, name) if given is not None else _default(field)
        inner = list(_sections_of(field.annotation))
        for between, section in inner:
            known = default if isinstance(default, section) else None
            yield from keys_of(section, known, f"{here}{between}.")
        if not inner:
            yield here, default


def _sections_of(annotation: Any) -> Iterator[tuple[str, type[BaseModel]]]:
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            between = {Mapping: ".NAME", tuple: "[]"}.get(_origin(annotation), "")
            yield between, part


def _origin(annotation: Any) -> Any:
    origin = get_origin(annotation)
    return Mapping if isinstance(origin, type) and issubclass(origin, Mapping) else origin


def _default(field: FieldInfo) -> Any:
    return REQUIRED if field.is_required() else field.get_default(call_default_factory=True)


# Checks


def checks(_: str) -> Iterator[str]:
    """Every check by family: when it passes, its other statuses, an example of a fix."""
    fixes = _fixes()
    for family in Family:
        ours = [check for check in CHECKS if check.family is family]
        found = (
            (f"`{c.name}`", _escaped(c.about), ", ".join(c.worse), _escaped(fixes.get(c.name, "")))
            for c in ours
        )
        yield from [f"## {HEADINGS[family]}", ""]
        yield from [*table("check|passes when|otherwise|example of a fix", found), ""]


def _fixes() -> Mapping[str, str]:
    """By check, the remedy of the first failure or warning in its test cases."""
    known: dict[str, str] = {}
    for path in sorted(CASES.glob("*.expected")):
        entries = re.split(r"^(?=ok |warn |fail |not-checked |==)", path.read_text(), flags=re.M)
        for entry in entries:
            head = re.match(r"(?:fail|warn) +([\w-]+):", entry)
            fix = _FIX.search(entry)
            if head and fix:
                known.setdefault(head[1], fix[1])
    return known


def prechecks(_: str) -> Iterator[str]:
    """Which checks gate a failover."""

    def modes(some: Iterable[Mode]) -> str:
        return ", ".join(mode.value for mode in Mode if mode in set(some)) or "-"

    found = []
    for name, check in PRECHECKS.items():
        rule = check.prechecks
        assert rule is not None
        allowed = "yes" if rule.overridable else "no"
        found.append((f"`{name}`", modes(rule.modes), modes(rule.needed), allowed))
    yield from table("check|before|blocks if not checked|can be overridden", found)


# Documents


def documents(_: str) -> Iterator[str]:
    """Every JSON document and its fields."""
    for name in names():
        schema = schema_of(name)
        yield from [f"## `drctl/{name}/1`", "", f"{_escaped(schema['title'])}.", ""]
        yield from table("field|type|meaning", _fields(schema, schema.get("$defs", {}), "", ()))
        yield ""


PRINTED_BY: Mapping[str, str] = {
    "completion": "completion SHELL",
    "connect-offsets": "connect offsets export (also its file)",
    "connect-offsets-apply": "connect offsets apply --execute",
    "connect-offsets-plan": "connect offsets translate, connect offsets apply",
    "connect-recover": "connect recover --execute",
    "connect-recover-plan": "connect recover",
    "connect-status": "connect status",
    "consumer-timestamp": "dump-consumer-timestamps (one per line)",
    "doctor": "doctor",
    "drill": "drill --execute",
    "drill-clean": "drill clean",
    "drill-history": "drill history",
    "drill-plan": "drill",
    "elect": "elect preferred --execute, elect unclean --execute",
    "elect-plan": "elect preferred, elect unclean",
    "elect-show": "elect show, elect wait",
    "error": "every command that ends without a result",
    "gap": "gap (also gap.json)",
    "gap-estimate": "gap --scope estimate",
    "duplicates": "duplicates",
    "help": "COMMAND --help",
    "init": "init",
    "journal": "journal",
    "lab": "lab up, status, replication, start, kill, freeze, unfreeze",
    "lab-down": "lab down",
    "lab-env": "lab env",
    "lab-load": "lab load",
    "lab-run": "lab run",
    "offsets": "offsets translate",
    "offsets-apply": "offsets apply --execute, offsets undo --execute",
    "offsets-explain": "offsets explain",
    "offsets-plan": "offsets apply, offsets undo",
    "offsets-snapshot": "offsets snapshot (also its file)",
    "offsets-track": "offsets track (one per pass)",
    "order": "failback --check-order",
    "plan": "failover, failback, doctor --fix, runbook run; every --plan-out",
    "reconcile": "reconcile",
    "report": "report --format json",
    "run": "failover, failback, doctor --fix and runbook run with --execute; resume",
    "runbook": "runbook show, runbook render",
    "runbook-lint": "runbook lint",
    "runbooks": "runbook list",
    "schema": "schema NAME",
    "schemas": "schema",
    "status": "status (one per check)",
    "version": "--version",
}


def document_commands(_: str) -> Iterator[str]:
    """Which command prints which document."""
    yield from table("document|printed by", ((f"`drctl/{n}/1`", PRINTED_BY[n]) for n in names()))


def _fields(
    schema: Mapping[str, Any], inner: Mapping[str, Any], path: str, seen: tuple[str, ...]
) -> Iterator[tuple[str, str, str]]:
    required = set(schema.get("required", ()))
    for name, field in schema.get("properties", {}).items():
        here = f"{path}{name}"
        if here == "schema":
            continue
        kind, below, between = _kind(field, inner)
        optional = "" if name in required else ", may be absent"
        title = below[1].get("title", "") if below else ""
        yield f"`{here}`", kind + optional, _escaped(field.get("description", title))
        if below is not None and below[0] not in seen:
            yield from _fields(below[1], inner, f"{here}{between}.", (*seen, below[0]))


_Below = tuple[str, Mapping[str, Any]] | None


def _kind(field: Mapping[str, Any], inner: Mapping[str, Any]) -> tuple[str, _Below, str]:
    """Describe a type; return the nested object, if any, and the separator between their names."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return "object", (name, inner[name]), ""
    if "anyOf" in field:
        kinds = [_kind(each, inner) for each in field["anyOf"]]
        below, between = next(((b, s) for _, b, s in kinds if b is not None), (None, ""))
        return " or ".join(dict.fromkeys(kind for kind, _, _ in kinds)), below, between
    if "const" in field:
        return f"`{field['const']}`", None, ""
    if "enum" in field:
        words = ("null" if value is None else f"`{value}`" for value in field["enum"])
        return ", ".join(words), None, ""
    if field.get("type") == "array" and isinstance(field.get("items"), Mapping):
        kind, below, between = _kind(field["items"], inner)
        return f"list of {kind}", below, f"[]{between}"
    if field.get("type") == "object" and isinstance(field.get("additionalProperties"), Mapping):
        kind, below, between = _kind(field["additionalProperties"], inner)
        return f"map of {kind}", below, f".NAME{between}"
    if field.get("type") == "object" and "properties" in field:
        return "object", ("", field), ""
    stated = field.get("type", "any value")
    kind = stated if isinstance(stated, str) else " or ".join(stated)
    return ("time" if field.get("format") == "date-time" else kind), None, ""


# Metrics and runbook steps


def metrics(_: str) -> Iterator[str]:
    """The metrics of `drctl status --listen`."""
    yield from table(
        "metric|labels|meaning",
        (
            (f"`{PREFIX}{f.name}`", ", ".join(f"`{label}`" for label in f.labels), _escaped(f.help))
            for f in FAMILIES
        ),
    )


def kinds(before: str) -> Iterator[str]:
    """Kinds of steps and their settings; their descriptions are kept from the page."""
    known = _kept(before, 1)
    found = (
        (
            f"`{kind}`",
            known.get(kind, ""),
            ", ".join(f"`{f.alias or n}`" for n, f in spec.model.model_fields.items()),
        )
        for kind, spec in SPECS.items()
    )
    yield from table("kind|does|settings", found)


BLOCKS: Mapping[str, Callable[[str], Iterator[str]]] = {
    "checks": checks,
    "commands": commands,
    "document-commands": document_commands,
    "documents": documents,
    "endpoint-keys": endpoint_keys,
    "exit-codes": exit_codes,
    "global-options": global_options,
    "keys": keys,
    "kinds": kinds,
    "metrics": metrics,
    "prechecks": prechecks,
}


def main() -> None:
    """Write the pages."""
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(page(path), encoding="utf-8")


if __name__ == "__main__":
    main()
