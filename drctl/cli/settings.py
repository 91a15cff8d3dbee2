"""Loads the configuration, and masks its secrets in messages."""

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.options import options
from drctl.host import connections
from drctl.model.errors import DrctlError
from drctl.model.text import Lines

if TYPE_CHECKING:
    from drctl.config.configuration import Config
    from drctl.config.link import Link
    from drctl.model.health import NoClusterResponds
    from drctl.views.command_documents import ErrorDocument

_loaded: ContextVar["Config | None"] = ContextVar("config", default=None)


def configuration() -> "Config":
    """Load the configuration; warns of secrets that other users can read.

    From now on clusters that do not answer are remembered: drctl waits for each only once.

    Raises:
        ConfigError: it does not exist or has problems.
    """
    from drctl.config.loading import find, load

    connections.begin()
    config = load(find(options().config, os.environ))
    _loaded.set(config)
    config.keep_hidden()
    for warning in config.warnings(os.environ):
        console().warn_once(warning)
    return config


def configuration_if_any() -> "Config | None":
    """Load the configuration; None if there is none, for commands that do not need one.

    Raises:
        ConfigError: it has problems, or the given file does not exist.
    """
    from drctl.config.loading import DEFAULT, VARIABLE

    named = options().config or os.environ.get(VARIABLE)
    return configuration() if named or DEFAULT.exists() else None


def placed(error: "DrctlError") -> str:
    """The message of an error, with the place of its setting in drctl.yaml."""
    config = _loaded.get()
    if config is None or not error.settings:
        return error.message
    from drctl.config.loading import place_of

    place = place_of(config.path, error.settings)
    return f"{place}: {error.message}" if place else error.message


def neither_responds(link: "Link | None" = None) -> "NoClusterResponds | None":
    """The diagnosis if both clusters of the given link, or of any link, are silent."""
    config = _loaded.get()
    if config is None or not connections.unreachable_clusters():
        return None
    from drctl.app.network import neither_responds as diagnosis

    return diagnosis(config, link)


def without_secrets(text: str) -> str:
    """Mask all known secrets in a message, as a last safeguard."""
    from drctl.config.secret import conceal, without_known

    config = _loaded.get()
    known = without_known(text)
    masked = conceal(known, config.secrets(os.environ)) if config else known
    return Lines(masked) if isinstance(text, Lines) else masked


def error_document(error: DrctlError) -> "ErrorDocument":
    """An error as a document, without secrets."""
    from drctl.views.command_documents import ErrorBody, ErrorDocument

    return ErrorDocument(
        error=ErrorBody.of(
            error,
            code=int(error.exit_code),
            message=without_secrets(error.message),
            hint=without_secrets(error.hint),
        )
    )
