"""A hook of mkdocs: adds pages of the repository outside docs/ to the site."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = {
    "README.md": "about.md",
    "CHANGELOG.md": "changelog.md",
    **{f"runbooks/{path.name}": f"runbooks/{path.name}" for path in ROOT.glob("runbooks/*.md")},
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links to pages of the site; links to other files become text."""
    before = {name: path for path, name in OUTSIDE.items()}
    here = ROOT / before.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def link(match: re.Match[str]) -> str:
        text, address, place = match.groups(default="")
        path = str((here.parent / address).resolve().relative_to(ROOT))
        name = OUTSIDE.get(path, path.removeprefix("docs/"))
        if name == path and path not in OUTSIDE:
            return text
        return f"[{text}]({'../' * page.file.src_uri.count('/')}{name}{place})"

    return _LINK.sub(link, markdown)
