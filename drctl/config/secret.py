"""Secrets: how their names identify them, and how they are masked in output."""

import html
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import quote as percent

MASK = "***"

SECRET_NAME = (
    r"pas+w|pass?phrase|pwd|secret|token|credential|jaas|private|oauthbearer[.]config"
    r"|assertion|(^|[._-])key($|[._-])|(api|access|account|shared)[._-]?key"
    r"|(?<!by)(?<!com)pass($|[._-])|_auth$|authorization|cookie|auth[.]user[.]info"
)
"""Matches names of secrets; also valid in Java, with `(?i)`."""

_SECRET_NAME = re.compile(SECRET_NAME, re.IGNORECASE)
_NOT_THE_SECRET_ITSELF = re.compile(
    r"(location|path|file|url|uri|type|keytab|algorithm|endpoint[a-z.]*|mechanism|id)$",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?<=://)(.*)@", re.DOTALL)
_HEAD_OF_PEM = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]+-----")
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_ESCAPE = re.compile("%[0-9A-F]{2}")
_SHORTEST = 4
_LONG = 8
"""Secrets of this length are masked anywhere; shorter ones only as whole words."""


class Secret:
    """A text that only `reveal` shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for clients; never print it."""
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
        raise TypeError("a secret cannot be pickled")


def reveal(value: str | Secret) -> str:
    """The plain text."""
    return value.reveal() if isinstance(value, Secret) else value


def names_secret(name: str) -> bool:
    """Whether a setting of this name holds a secret, as `sasl.password` does."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_THE_SECRET_ITSELF.search(name)


def hide_user_info(text: str) -> str:
    """A URL with the password of `scheme://user:password@host` masked."""
    return _USER_INFO.sub(lambda found: _hidden(found[1]), text)


def user_info(text: str) -> str:
    """The password of `scheme://user:password@host`; empty if there is none."""
    match = _USER_INFO.search(text)
    return match[1].partition(":")[2] if match else ""


def conceal(text: str, secrets: Collection[str]) -> str:
    """Mask every occurrence of the secrets and of each of their lines.

    Secrets of up to three characters are not masked: the text would become unreadable.
    """
    found = _pattern(map(re.escape, _all_forms(secrets)))
    return found.sub(MASK, text) if found else text


class _Known:
    """Secrets of this command line."""

    secrets: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    in_messages: re.Pattern[str] | None = None
    in_results: re.Pattern[str] | None = None


def forget() -> None:
    """Forget all secrets, for a new command line."""
    _Known.secrets = _Known.settings = _Known.names = frozenset()
    _Known.in_messages = _Known.in_results = None


def remember(
    secrets: Iterable[str] = (), *, settings: Iterable[str] = (), names: Iterable[str] = ()
) -> None:
    """Mask these from now on in everything that is printed or stored.

    Args:
        secrets: masked everywhere.
        settings: referenced values that may be secret; masked in messages only, so that results
            keep, for example, an address from the environment.
        names: names in results and journals. If a secret equals a name (a password that is the
            user name), the name stays: masking it would damage the journal and reveal the secret
            to readers who know the name.
    """
    before = (_Known.secrets, _Known.settings, _Known.names)
    now = tuple(old | {*new} for old, new in zip(before, (secrets, settings, names), strict=True))
    if now == before:
        return
    _Known.secrets, _Known.settings, _Known.names = now
    _Known.in_messages = _pattern(map(re.escape, _all_forms(_Known.secrets | _Known.settings)))
    forms = _all_forms(_Known.secrets)
    _Known.in_results = _pattern(_as_word(form) for form in forms if form not in _Known.names)


def without_known(text: str) -> str:
    """Mask all secrets in a message."""
    return _Known.in_messages.sub(MASK, text) if _Known.in_messages else text


def masked(text: str) -> str:
    """Mask all secrets in a text of a result or journal.

    Secrets of fewer than eight characters are masked as whole words only: with the password
    `test`, a topic `test-orders` keeps its name.
    """
    return _Known.in_results.sub(MASK, text) if _Known.in_results and is_secret_in(text) else text


def is_secret_in(text: str) -> bool:
    """Whether a text, or JSON in it, may contain a secret."""
    # The fastest of the patterns: it has literal prefixes.
    return _Known.in_messages is not None and _Known.in_messages.search(text) is not None


def masked_document(document: Any) -> Any:
    """Mask all texts in a JSON value; keys stay."""
    # Most values of large documents are numbers.
    if _Known.in_results is None or document is None or isinstance(document, int | float):
        return document
    if isinstance(document, str):
        return masked(document)
    if isinstance(document, Mapping):
        return {name: masked_document(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [masked_document(value) for value in document]
    return document


def _hidden(info: str) -> str:
    user, colon, _ = info.partition(":")
    return f"{user}:{MASK}@" if colon else f"{info}@"


def _all_forms(secrets: Iterable[str]) -> list[str]:
    """All written forms, longest first, so that longer secrets are masked before prefixes."""
    found = {form for secret in secrets for form in _forms(secret) if len(form) >= _SHORTEST}
    return sorted(found, key=lambda form: (-len(form), form))


def _forms(secret: str) -> Iterator[str]:
    """A secret and each of its lines, in the encodings in which they may appear."""
    # Certificates are not secret, and bundles have thousands of lines.
    lines = {secret, *(line.strip() for line in _CERTIFICATE.sub("", secret).splitlines())}
    for line in lines:
        if len(line) < _SHORTEST or _HEAD_OF_PEM.fullmatch(line):
            continue
        yield line
        for safe in ("", "/"):
            sent = percent(line, safe=safe, errors="replace")
            yield from (sent, _ESCAPE.sub(lambda found: found[0].lower(), sent))
        yield json.dumps(line)[1:-1]
        yield json.dumps(line, ensure_ascii=False)[1:-1]
        yield repr(line)[1:-1]
        yield html.escape(line)
        yield line.replace("'", "'\"'\"'")
        yield line.replace("\\", "\\\\")


def _as_word(form: str) -> str:
    pattern = re.escape(form)
    if len(form) >= _LONG:
        return pattern
    before = r"(?<!\w)(?<!\w[-.])" if re.match(r"\w", form[0]) else ""
    after = r"(?![-.]?\w)" if re.match(r"\w", form[-1]) else ""
    return before + pattern + after


def _pattern(alternatives: Iterable[str]) -> re.Pattern[str] | None:
    each = "|".join(alternatives)
    return re.compile(each) if each else None
