"""The document `drctl/error/1` of the command contract."""

from typing import Any

from drctl.cli.settings import without_secrets
from drctl.model.errors import DrctlError


def error_document(error: DrctlError) -> dict[str, Any]:
    """An error for machines, without what is secret."""
    body = {
        "code": int(error.exit_code),
        "kind": error.kind,
        "message": without_secrets(error.message),
        "hint": without_secrets(error.hint),
    }
    return {"schema": "drctl/error/1", "error": body}
