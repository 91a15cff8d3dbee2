"""Values that must never be shown: how to tell them by their names, and how they are masked."""

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
"""What the name of a secret holds; Java's regular expressions read it too, with `(?i)`."""

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
"""From this length on a secret is masked wherever it stands; a shorter one as a word of its own."""


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
    """A URL without the password of `scheme://user:password@host`, whatever the password holds."""
    return _USER_INFO.sub(lambda found: _hidden(found[1]), text)


def user_info(text: str) -> str:
    """The password of `scheme://user:password@host`; empty where there is none."""
    match = _USER_INFO.search(text)
    return match[1].partition(":")[2] if match else ""


def conceal(text: str, secrets: Collection[str]) -> str:
    """The text with every occurrence of a secret masked, also of one line of it.

    Secrets of up to three characters stay: masking them would only make the text unreadable.
    """
    found = _pattern(map(re.escape, _all_forms(secrets)))
    return found.sub(MASK, text) if found else text


class _Known:
    """What this command line must not show."""

    secrets: frozenset[str] = frozenset()
    settings: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    in_messages: re.Pattern[str] | None = None
    in_results: re.Pattern[str] | None = None


def forget() -> None:
    """Know of no secret: a command line begins."""
    _Known.secrets = _Known.settings = _Known.names = frozenset()
    _Known.in_messages = _Known.in_results = None


def remember(
    secrets: Iterable[str] = (), *, settings: Iterable[str] = (), names: Iterable[str] = ()
) -> None:
    """Mask from now on what this command line shows or writes down of these.

    Args:
        secrets: masked in everything.
        settings: values that came from elsewhere and may be secret, though nothing says so; masked
            in messages only: a cluster's address out of the environment stays in results.
        names: of what results and journals are about. Where a secret is also a name (a user's
            password that is the user's name), masking the name would damage a journal, and tell
            the secret to whoever knows the name.
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
    """A message without any secret of this command line."""
    return _Known.in_messages.sub(MASK, text) if _Known.in_messages else text


def masked(text: str) -> str:
    """A text of a result or journal without the secrets of this command line.

    A secret of less than eight characters is masked where it stands as a word of its own: with a
    password such as `test` a topic `test-orders` keeps its name.
    """
    return _Known.in_results.sub(MASK, text) if _Known.in_results and is_secret_in(text) else text


def is_secret_in(text: str) -> bool:
    """Whether anything may have to be masked in a text, or in what is written in it as JSON."""
    # Of all patterns this one is searched for by the first characters of what it may find.
    return _Known.in_messages is not None and _Known.in_messages.search(text) is not None


def masked_document(document: Any) -> Any:
    """The same of all texts in a JSON value; names of keys stay."""
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
    """The longest first: of two that begin alike the longer one has to go."""
    found = {form for secret in secrets for form in _forms(secret) if len(form) >= _SHORTEST}
    return sorted(found, key=lambda form: (-len(form), form))


def _forms(secret: str) -> Iterator[str]:
    """A secret and each of its lines, as what shows or sends a text may write it."""
    # Certificates are no secrets, and a bundle of them has thousands of lines.
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
    behind = r"(?![-.]?\w)" if re.match(r"\w", form[-1]) else ""
    return before + pattern + behind


def _pattern(alternatives: Iterable[str]) -> re.Pattern[str] | None:
    each = "|".join(alternatives)
    return re.compile(each) if each else None
