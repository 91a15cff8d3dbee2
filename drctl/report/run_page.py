"""A run as one HTML file for people: no script, no network, nothing beside it."""

from base64 import b64encode
from hashlib import sha256
from importlib.metadata import version

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drctl.report import printable, run_known, run_lines, run_next, run_words
from drctl.report.leaving_lines import leaving_told
from drctl.report.run_data import ReportData
from drctl.report.run_picture import picture
from drctl.resources import shipped

ITEMS = 20
GROUPS = 25
NOTES = 50


def render(data: ReportData) -> str:
    """The page; reads nothing but the template."""
    folder = shipped("templates")
    # The frame is that of the gap page: one look for everything that drctl hands over.
    style = "".join((folder / name).read_text(encoding="utf-8") for name in ("gap.css", "run.css"))
    return (
        _environment(str(folder))
        .get_template("run.html.j2")
        .render(
            data=data,
            style=style,
            style_hash=b64encode(sha256(style.encode()).digest()).decode(),
            version=version("drctl"),
            tone=run_words.tone(data),
            chip=run_words.chip(data),
            words=run_words,
            known=run_known.known(data),
            unknown=run_known.unknown(data),
            steps=run_next.next_steps(data),
            clients=leaving_told(data),
            figures=run_lines.figures(data),
            picture=picture(data),
            item_limit=ITEMS,
            group_limit=GROUPS,
            note_limit=NOTES,
        )
    )


def _environment(folder: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=printable.without_secrets,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "plain", "sentence", "plural"):
        environment.filters[name] = getattr(printable, name)
    environment.filters["lasting"] = run_words.length
    environment.filters["when"] = run_words.when
    return environment
