"""Renders self-contained HTML pages: no scripts, no network access."""

from base64 import b64encode
from hashlib import sha256
from importlib.metadata import version

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drctl.model.text import plural
from drctl.resources import shipped
from drctl.views import text
from drctl.views.time_axis import percent

_FILTERS = {
    name: getattr(text, name)
    for name in ("age", "number", "plain", "sentence", "share", "size", "utc", "when")
} | {"lasting": text.length, "percent": percent, "plural": plural}


def render_page(template: str, **values: object) -> str:
    """Render a template with the shared style sheet.

    Args:
        values: variables of the template.
    """
    folder = shipped("templates")
    style = (folder / "page.css").read_text(encoding="utf-8")
    environment = Environment(
        loader=FileSystemLoader(str(folder)),
        autoescape=True,
        finalize=text.without_secrets,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    return environment.get_template(template).render(
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        version=version("drctl"),
        **values,
    )
