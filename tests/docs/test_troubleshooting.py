"""Messages that the troubleshooting page quotes are those of the code."""

import re
from functools import cache

import pytest

from tests.docs.pages import ROOT, page, rows

_CONTINUED = re.compile(r'"\s*\n\s*f?"')
_OURS = page("docs/troubleshooting.md").text.partition("\n## Clients after a failover\n")[0]


@cache
def source() -> str:
    """All of drctl's code; strings that go over several lines are joined."""
    files = (path.read_text(encoding="utf-8") for path in (ROOT / "drctl").rglob("*.py"))
    return _CONTINUED.sub("", "\n".join(files))


def quoted() -> list[str]:
    return [code for row in rows(_OURS) for code in re.findall(r"`([^`]+)`", row[0])]


@pytest.mark.parametrize("text", quoted())
def test_a_quoted_message_or_name_exists(text: str) -> None:
    parts = [part.strip() for part in text.split("...")]
    assert [part for part in parts if part not in source()] == []


def test_messages_are_found() -> None:
    assert len(quoted()) > 50
