"""The configuration that the global options name, and the masking of its secrets."""

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.options import options
from drctl.model.errors import DrctlError
from drctl.model.text import Lines

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.views.command_documents import ErrorDocument

_loaded: ContextVar["Config | None"] = ContextVar("config", default=None)


def configuration() -> "Config":
    """The configuration of this command line; warns of secrets that others could read.

    From here on it is kept who does not answer: nobody waits twice for a silent cluster.

    Raises:
        ConfigError: there is none, or something in it is wrong.
    """
    from drctl.config.loading import find, load
    from drctl.host import connections

    connections.begin()
    config = load(find(options().config, os.environ))
    _loaded.set(config)
    config.keep_hidden()
    for warning in config.warnings(os.environ):
        console().warn(warning)
    return config


def configuration_if_any() -> "Config | None":
    """The same; None where nobody names one and there is none, for commands that need none.

    Raises:
        ConfigError: something in it is wrong.
    """
    from drctl.config.loading import DEFAULT, VARIABLE

    named = options().config or os.environ.get(VARIABLE)
    return configuration() if named or DEFAULT.exists() else None


def placed(error: "DrctlError") -> str:
    """The message of an error, with the place in drctl.yaml of the setting that it is about."""
    config = _loaded.get()
    if config is None or not error.settings:
        return error.message
    from drctl.config.loading import place_of

    place = place_of(config.path, error.settings)
    return f"{place}: {error.message}" if place else error.message


def without_secrets(text: str) -> str:
    """A message with all secrets masked that are known: the last line of defence."""
    from drctl.config.secret import conceal, without_known

    config = _loaded.get()
    known = without_known(text)
    masked = conceal(known, config.secrets(os.environ)) if config else known
    return Lines(masked) if isinstance(text, Lines) else masked


def error_document(error: DrctlError) -> "ErrorDocument":
    """An error for machines, without what is secret."""
    from drctl.views.command_documents import ErrorBody, ErrorDocument

    return ErrorDocument(
        error=ErrorBody.of(
            error,
            code=int(error.exit_code),
            message=without_secrets(error.message),
            hint=without_secrets(error.hint),
        )
    )
