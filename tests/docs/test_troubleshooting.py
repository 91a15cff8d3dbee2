"""Messages quoted on the troubleshooting page are messages of the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import ROOT, page, rows

_OURS = page("docs/troubleshooting.md").text.partition("\n## Clients after a failover\n")[0]


def strings(module: ast.Module) -> Iterator[str]:
    """Return the string literals of a module except docstrings; of an f-string its parts."""
    # A string that is a statement of its own is a docstring, of a module, class or attribute.
    docstrings = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield from (node.value,) if isinstance(node.value, str) else ()


@cache
def source() -> str:
    """Return all of drctl's messages and names, one per line."""
    modules = (
        ast.parse(path.read_text(encoding="utf-8")) for path in (ROOT / "drctl").rglob("*.py")
    )
    return "\n".join(text for module in modules for text in strings(module))


def quoted() -> list[str]:
    return [code for row in rows(_OURS) for code in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.parametrize("text", quoted())
def test_a_quoted_message_or_name_exists(text: str) -> None:
    parts = [part.strip() for part in text.split("...")]
    assert [part for part in parts if part not in source()] == []


def test_messages_are_found() -> None:
    assert len(quoted()) > 50


def test_a_docstring_is_not_a_message() -> None:
    module = ast.parse('"""One."""\nclass A:\n    """Two."""\n    b = "three"\n    """Four."""\n')
    assert list(strings(module)) == ["three"]
