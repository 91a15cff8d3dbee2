"""The configuration that the global options name, and the masking of its secrets."""

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

from drctl.cli.console import console
from drctl.cli.options import options

if TYPE_CHECKING:
    from drctl.config.configuration import Config

_loaded: ContextVar["Config | None"] = ContextVar("config", default=None)


def configuration() -> "Config":
    """The configuration of this command line; warns of secrets that others could read.

    Raises:
        ConfigError: there is none, or something in it is wrong.
    """
    from drctl.config.loading import find, load

    config = load(find(options().config, os.environ))
    _loaded.set(config)
    for warning in config.warnings():
        console().warn(warning)
    return config


def without_secrets(text: str) -> str:
    """The text with the secrets of the loaded configuration masked: the last line of defence."""
    config = _loaded.get()
    if config is None:
        return text
    from drctl.config.secret import conceal

    return conceal(text, config.secrets(os.environ))
