"""Names and contents that do harm if a terminal, a browser, a shell or YAML interprets them."""

import re
import unicodedata
from html.parser import HTMLParser

MARKUP = "</title></style><script>document.title='pwned'</script><img src=/leak onerror=alert(1)>"
SHELL = "$(touch pwned) `touch pwned`; touch pwned | '\" \\"
YAML = "\n- a: {b: &c [*d, !!python/object:os.system x]}\n%YAML"
CONTROLS = "\x1b[2J\x1b]0;pwned\x07\r\x7f\x9b31m\u202egnp\u2066\u200b\ufeff[red]x[/] {{ 7*7 }}"

TEXT = f"{MARKUP}{SHELL}{YAML}{CONTROLS}"
"""For names of groups, clients and headers: Kafka permits everything but a null character."""

DATA = f"\0{TEXT}"
"""For keys and values."""

TOPIC = "--yes.__-"
"""The beginning of a topic's name: Kafka permits letters, digits, dots, dashes and underscores."""

CONNECTOR = "<img src=x onerror=alert(1)> $(touch pwned) `touch pwned` '\"& - b: *c # ?"
"""Part of a connector's name: Connect permits no control characters.

Its REST interface also fails with braces (500), slashes and percent signs (400).
"""

PRINCIPAL = f"{MARKUP}{SHELL}"

_CODE_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_NOT_IN_A_PAGE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u2066]")


class Elements(HTMLParser):
    """The elements of a page, and the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [tag, *(name for name, _ in attributes)]


def must_be_printable(text: str) -> None:
    """No character moves the cursor, changes colors or reorders text."""
    odd = {each for each in text if unicodedata.category(each) in ("Cc", "Cf")} - {"\n"}
    assert not odd, (sorted(map(ascii, odd)), text)


def must_be_inert(page: str) -> None:
    """Nothing in a page is executed or loaded."""
    elements = Elements(page).found
    assert not {"script", "img"} & {*elements}
    assert not [each for each in elements if each.startswith("on")]
    assert not (odd := _NOT_IN_A_PAGE.findall(page)), ascii(odd)


def must_be_text(markdown: str) -> None:
    """No markup outside code blocks."""
    assert not Elements(_CODE_BLOCK.sub("", markdown)).found
