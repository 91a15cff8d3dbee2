"""All drills as one HTML file for people: no script, no network, nothing beside it."""

from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import version

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from drctl.drill.history import Past, Verdict
from drctl.report import drill_lines, printable, run_words
from drctl.report.drill_picture import comparable, trend
from drctl.resources import shipped

ROWS = 200
_TONES = {Verdict.PASSED: "fine", Verdict.WORSE: "found"}


def render(drills: Sequence[Past]) -> str:
    """The page; reads nothing but the template.

    Args:
        drills: the oldest first; at least one.
    """
    folder = shipped("templates")
    # The frame is that of the gap page: one look for everything that drctl hands over.
    style = "".join(
        (folder / name).read_text(encoding="utf-8") for name in ("gap.css", "drill.css")
    )
    newest = drills[-1]
    return (
        _environment(str(folder))
        .get_template("drill.html.j2")
        .render(
            newest=newest,
            tone=_TONES.get(newest.verdict, "incomplete"),
            verdict=drill_lines.VERDICTS[newest.verdict],
            passed=sum(past.verdict is Verdict.PASSED for past in drills),
            total=len(drills),
            trend=trend(comparable(drills)),
            columns=drill_lines.COLUMNS,
            rows=[(past.verdict.value, drill_lines.past_row(past)) for past in drills[::-1][:ROWS]],
            row_limit=ROWS,
            style=style,
            style_hash=b64encode(sha256(style.encode()).digest()).decode(),
            version=version("drctl"),
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
