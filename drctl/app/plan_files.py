"""Plans in files: what `--plan-out` writes, and what `--expect-plan` holds a plan against."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from drctl.config.secret import masked_document
from drctl.model.errors import ConfigError, Refused, UsageError
from drctl.model.plan import Plan, changes
from drctl.model.strict_json import read_json

PLAN_SCHEMA = "drctl/plan/1"

_WRITE_ANEW = "review the new plan and write it with --plan-out"
_GIVE = "pass a file that --plan-out wrote"
_WORDS = frozenset({"text", "expect", "overrides"})


def without_secrets(plan: Plan) -> Plan:
    """The plan as files and journals hold it: it is the one that is carried out and compared.

    Raises:
        Refused: a step would be another one.
    """
    shown = masked_document(plan.to_json())
    steps = []
    for step, told in zip(plan.steps, shown["steps"], strict=True):
        done = {n: v for n, v in step.settings.items() if not _is_for_people(n, v)}
        kept = {**told["settings"], **done}
        held = [n for n, v in kept.items() if json.dumps(v) != json.dumps(masked_document(v))]
        if held or told["id"] != step.id:
            raise Refused(
                f"step {told['id']}: its {', '.join(held) or 'id'} would write a secret to the"
                " journal",
                "pass secrets to a command by `env`: ${env:NAME} or ${file:PATH}; change a secret"
                " that is an ordinary word of plans",
            )
        steps.append(replace(step, settings=kept))
    return replace(plan, steps=tuple(steps), basis=shown["basis"], overrides=shown["overrides"])


def _is_for_people(name: str, value: object) -> bool:
    """Whether nothing is done by a setting; `undo` is a text, or a command."""
    return name in _WORDS or (name == "undo" and isinstance(value, str))


def write_plan(document: Mapping[str, Any], file: Path) -> None:
    """Write the document of a plan, whole or not at all.

    Raises:
        UsageError: it cannot be written there.
    """
    from drctl.views.files import write_whole

    try:
        write_whole(file, json.dumps(masked_document(document), indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error


def check_plan_file(file: Path) -> None:
    """See that a file holds a plan, before anything else is asked.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: it holds no plan.
    """
    _plan_in(_read(file), file)


def refuse_another(plan: Plan, file: Path) -> None:
    """Go on only with the plan that a file holds.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: it holds no plan.
        Refused: the plan is another one; says what has changed.
    """
    document = _read(file)
    if document.get("fingerprint") == plan.fingerprint:
        return
    what = "; ".join(changes(_plan_in(document, file), plan))
    # Only a file that was changed by hand differs in its fingerprint alone.
    raise Refused(f"the plan is not the one in {file}: {what or 'its fingerprint'}", _WRITE_ANEW)


def _plan_in(document: Mapping[str, Any], file: Path) -> Plan:
    try:
        overrides = {each["precheck"]: each["reason"] for each in document["overrides"]}
        found = Plan.from_json({**document, "overrides": overrides})
        found.to_json()
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{file}: damaged plan: {error}", _GIVE) from error
    return found


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found = read_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{file}: {error}", _GIVE) from error
    if not isinstance(found, dict) or found.get("schema") != PLAN_SCHEMA:
        raise ConfigError(f"{file} is not a plan of drctl", _GIVE)
    return found
