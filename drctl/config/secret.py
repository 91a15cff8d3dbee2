"""Values that must never be shown, and how to tell them by their names."""

import re
from typing import NoReturn

MASK = "***"

_SECRET_NAME = re.compile(
    r"pas+w|pass?phrase|pwd|secret|token|credential|jaas|private|oauthbearer\.config"
    r"|assertion|(^|[._-])key($|[._-])|apikey|accesskey",
    re.IGNORECASE,
)
_NOT_THE_SECRET_ITSELF = re.compile(
    r"(location|path|file|url|uri|type|keytab|algorithm|endpoint[a-z.]*|mechanism|id)$",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)([^/@\s:]*):\S*@")


class Secret:
    """A text that only `reveal` shows; equal where the texts are."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself; hand it to a client, never to an output."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return format(MASK, spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written to files or sent to other processes")


def reveal(value: str | Secret) -> str:
    """The plain text of either."""
    return value.reveal() if isinstance(value, Secret) else value


def names_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret, as `sasl.password` does."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_THE_SECRET_ITSELF.search(name)


def hide_user_info(text: str) -> str:
    """URLs in the text without the password of `scheme://user:password@host`."""
    return _USER_INFO.sub(rf"\1:{MASK}@", text)


def user_info(text: str) -> str:
    """The password of `scheme://user:password@host`; empty where there is none."""
    match = _USER_INFO.search(text)
    return match[0].partition(":")[2].removesuffix("@") if match else ""


def conceal(text: str, secrets: frozenset[str]) -> str:
    """The text with every occurrence of a secret masked, the longest first.

    Secrets of up to three characters stay: masking them would only make the text unreadable.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) > 3:
            text = text.replace(secret, MASK)
    return text
