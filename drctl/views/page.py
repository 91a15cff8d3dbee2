"""Renders self-contained HTML pages: no scripts, no network access."""

import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from drctl.model.text import plural
from drctl.resources import shipped
from drctl.views import text
from drctl.views.time_axis import percent

_OPTION = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def prose(value: str) -> Markup:
    """Show what is between backticks as code, and keep options such as `--override` together."""
    parts = [_together(escape(part)) for part in text.without_secrets(value).split("`")]
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    parts[1::2] = [Markup("<code>{}</code>").format(part) for part in parts[1::2]]
    return Markup().join(parts)


def _together(escaped: Markup) -> Markup:
    return Markup(_OPTION.sub(r'<span class="option">\g<0></span>', str(escaped)))


def command(value: str) -> Markup:
    """Keep each word of a command line together: a browser would break `--topic` after `--`."""
    words = text.without_secrets(value).split(" ")
    return Markup(" ").join(Markup("<span>{}</span>").format(word) for word in words)


_FILTERS = {
    name: getattr(text, name)
    for name in ("age", "number", "plain", "sentence", "share", "size", "utc", "when")
} | {
    "command": command,
    "lasting": text.length,
    "percent": percent,
    "plural": plural,
    "prose": prose,
}


@lru_cache(maxsize=1)
def _templates(folder: Path) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        finalize=text.without_secrets,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment


def render_page(template: str, **values: object) -> str:
    """Render a template with the shared style sheet.

    Args:
        values: variables of the template.
    """
    folder = shipped("templates")
    style = (folder / "page.css").read_text(encoding="utf-8")
    return (
        _templates(folder)
        .get_template(template)
        .render(
            style=style,
            style_hash=b64encode(sha256(style.encode()).digest()).decode(),
            version=version("drctl"),
            **values,
        )
    )
