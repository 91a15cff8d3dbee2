"""A cluster given on the command line, with the same rules as in drctl.yaml."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from drctl.config.fields import checked_url
from drctl.config.schema import ClusterConfig
from drctl.config.secret import hide_user_info, names_secret, user_info
from drctl.config.setting import Setting, literal, parts_of
from drctl.model.errors import UsageError
from drctl.model.text import lines


def given_cluster(
    name: str, bootstrap: str, pairs: Sequence[str], directory: Path
) -> ClusterConfig:
    """Build a cluster; relative file names start from the directory.

    Args:
        pairs: librdkafka properties, `NAME=VALUE` each.

    Raises:
        UsageError: the address or a property cannot be used.
    """
    properties = _properties(f"--{name}-property", pairs)
    try:
        settings = {p: literal(p, v, f"{name}: {p}", directory) for p, v in properties.items()}
        return ClusterConfig.model_validate(
            {"bootstrap": literal("bootstrap", bootstrap, name), "properties": settings}
        )
    except ValidationError as error:
        messages = [
            _described(detail["loc"], detail["msg"]) for detail in error.errors(include_input=False)
        ]
        raise UsageError(lines(f"{name}: {line}" for line in messages)) from None
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None


def given_url(option: str, url: str, directory: Path) -> Setting:
    """Parse the URL of a Connect worker; it may reference a password.

    Raises:
        UsageError: it is not a URL.
    """
    try:
        return checked_url(literal("connect", url, option, directory))
    except ValueError as error:
        raise UsageError(
            f"{option} {error}", f"for example: {option} http://connect:8083"
        ) from None


def holds_password(url: str) -> bool:
    """Whether a URL contains a literal password."""
    return hide_user_info(url) != url and _literal(user_info(url))


def _properties(option: str, pairs: Sequence[str]) -> dict[str, str]:
    """Raises UsageError for a malformed pair, and for a secret: other users see command lines."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(
                f"{option} requires NAME=VALUE", f"for example: {option} security.protocol=SSL"
            )
        if names_secret(name) and _literal(value):
            raise UsageError(
                f"{option}: {name} is a secret that other users can see",
                f"use a reference: {option} '{name}=${{env:NAME}}' or '{name}=${{file:PATH}}'",
            )
        found[name] = value
    return found


def _literal(text: str) -> bool:
    """Whether any part of the text is not a reference."""
    try:
        return any(isinstance(part, str) and part for part in parts_of(text))
    except ValueError:
        return True


def _described(path: tuple[str | int, ...], message: str) -> str:
    words = [str(part) for part in path if part not in ("properties", "[key]")]
    return f"{'.'.join(words)} {message.removeprefix('Value error, ')}"
