"""Names of hosts: what a resolver would not even take is wrong where it is written."""

import re

_IPV6 = re.compile(r"\[[0-9A-Fa-f:.%\w]+\]")
_NAME = re.compile(r"[\w.-]+")


def is_host(text: str) -> bool:
    """Whether it can be asked for: an IPv6 address in brackets, or labels of 1 to 63 characters."""
    if _IPV6.fullmatch(text):
        return True
    if not _NAME.fullmatch(text):
        return False
    try:
        text.encode("idna")
    except UnicodeError:
        return False
    return text != "."
