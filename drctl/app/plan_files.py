"""Plan files: `--plan-out` writes one, and `--expect-plan` compares a plan with one."""

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

_REVIEW = "review the new plan and write it with --plan-out"
_WRONG_FILE = "pass a file that --plan-out wrote"
_TEXTS = frozenset({"text", "expect", "overrides"})


def without_secrets(plan: Plan) -> Plan:
    """Mask secrets in the texts of a plan, which is executed and stored in files and journals.

    Raises:
        Refused: a setting that a step uses contains a secret.
    """
    document = plan.to_json()
    masked = masked_document(document)
    if masked == document:
        return plan
    steps = []
    for step, shown in zip(plan.steps, masked["steps"], strict=True):
        used = {n: v for n, v in step.settings.items() if not _is_text(n, v)}
        settings = {**shown["settings"], **used}
        secret = [n for n, v in settings.items() if json.dumps(v) != json.dumps(masked_document(v))]
        if secret or shown["id"] != step.id:
            raise Refused(
                f"step {shown['id']}: its {', '.join(secret) or 'id'} would write a secret to the"
                " journal",
                "pass secrets to a command by `env`: ${env:NAME} or ${file:PATH}; if the secret is"
                " an ordinary word that plans contain, change the secret",
            )
        steps.append(replace(step, settings=settings))
    return replace(plan, steps=tuple(steps), basis=masked["basis"], overrides=masked["overrides"])


def _is_text(name: str, value: object) -> bool:
    """Whether a setting is text that only people read; `undo` may be such a text or a command."""
    return name in _TEXTS or (name == "undo" and isinstance(value, str))


def write_plan(document: Mapping[str, Any], file: Path) -> None:
    """Write a plan file atomically.

    Raises:
        UsageError: the file cannot be written.
    """
    from drctl.views.files import write_whole

    try:
        write_whole(file, json.dumps(masked_document(document), indent=2) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from error


def check_plan_file(file: Path) -> None:
    """Check early that a file contains a plan.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: it does not contain a plan.
    """
    _plan_in(_read(file), file)


def require_plan(plan: Plan, file: Path) -> None:
    """Check that a plan is the one in a file.

    Raises:
        UsageError: the file cannot be read.
        ConfigError: it does not contain a plan.
        Refused: the plan differs; the message lists the changes.
    """
    document = _read(file)
    if document.get("fingerprint") == plan.fingerprint:
        return
    what = "; ".join(changes(_plan_in(document, file), plan))
    # The fingerprint alone differs only if the file was edited.
    raise Refused(
        f"the plan is not the one in {file}: {what or 'only its fingerprint differs'}", _REVIEW
    )


def _plan_in(document: Mapping[str, Any], file: Path) -> Plan:
    try:
        overrides = {each["precheck"]: each["reason"] for each in document["overrides"]}
        found = Plan.from_json({**document, "overrides": overrides})
        found.to_json()
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{file}: damaged plan: {error}", _WRONG_FILE) from error
    return found


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found = read_json(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{file}: {error}", _WRONG_FILE) from error
    if not isinstance(found, dict) or found.get("schema") != PLAN_SCHEMA:
        raise ConfigError(f"{file} is not a plan of drctl", _WRONG_FILE)
    return found
