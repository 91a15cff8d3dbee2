"""Texts of drctl.yaml with references: `${env:NAME}` and `${file:PATH}`, read when needed."""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from drctl.config.secret import MASK, Secret, hide_user_info, names_secret, remember, user_info
from drctl.model.errors import ConfigError
from drctl.model.text import arguments

# `$${` stands for a plain `${`.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_LONGEST_FILE = 1_000_000


@dataclass(frozen=True, slots=True)
class Reference:
    """`${env:NAME}` or `${file:PATH}`."""

    source: Literal["env", "file"]
    name: str

    def __str__(self) -> str:
        return f"${{{self.source}:{self.name}}}"


@dataclass(frozen=True, slots=True, repr=False)
class Setting:
    """A text as written; `resolve` replaces its references.

    Attributes:
        place: `FILE:LINE:COLUMN: path.to.field`, the head of every message about it.
        directory: what relative file names start from.
        hidden: whether its name marks the text as a secret.
    """

    raw: str
    place: str
    directory: Path = Path()
    hidden: bool = False

    def __repr__(self) -> str:
        return f"Setting({self.shown})"

    def __str__(self) -> str:
        return self.shown

    @property
    def shown(self) -> str:
        """The text for output: references as written, literal secrets masked."""
        if not self.hidden:
            return hide_user_info(self.raw)
        parts = parts_of(self.raw)
        return "".join(str(p) if isinstance(p, Reference) else MASK for p in parts if p)

    @property
    def references(self) -> tuple[Reference, ...]:
        """All references, in order."""
        return tuple(part for part in parts_of(self.raw) if isinstance(part, Reference))

    def resolve(self, environ: Mapping[str, str]) -> str | Secret:
        """Replace the references; returns a `Secret` if it has any or is hidden.

        Secrets in it are masked in all output from now on.

        Raises:
            ConfigError: a variable is not set, or a file cannot be read.
        """
        parts = parts_of(self.raw)
        read = [
            self._read(part, environ) if isinstance(part, Reference) else part for part in parts
        ]
        text = "".join(read)
        referred = [r for r, part in zip(read, parts, strict=True) if isinstance(part, Reference)]
        password = user_info(text)
        remember(
            [password, unquote(password), *([text, *read] if self.hidden else ())],
            settings=referred,
        )
        if self.references and not text:
            empty = " and ".join(map(str, self.references))
            verb = "is" if len(self.references) == 1 else "are"
            raise ConfigError(f"{self.place}: {empty} {verb} empty")
        secret = self.hidden or self.references or text != hide_user_info(text)
        return Secret(text) if secret else text

    def exposed_files(self) -> Iterator[str]:
        """A warning for each referenced file that other users can read."""
        for reference in self.references:
            if reference.source == "file":
                path = self._path(reference)
                if others_may_read(path):
                    remedy = f"chmod 600 {arguments(str(path))}"
                    yield f"{self.place}: other users can read {path}: {remedy}"

    def _read(self, reference: Reference, environ: Mapping[str, str]) -> str:
        if reference.source == "env":
            if reference.name not in environ:
                raise ConfigError(
                    f"{self.place}: environment variable {reference.name} is not set",
                    f"export {reference.name}=VALUE",
                )
            return environ[reference.name]
        path = self._path(reference)
        try:
            with path.open("rb") as file:
                content = file.read(_LONGEST_FILE + 1)
            if len(content) > _LONGEST_FILE:
                raise ConfigError(f"{self.place}: {path} is larger than {_LONGEST_FILE:,} bytes")
            return content.decode().removesuffix("\n").removesuffix("\r")
        except OSError as error:
            raise ConfigError(f"{self.place}: cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{self.place}: {path} is not UTF-8 text") from None

    def _path(self, reference: Reference) -> Path:
        path = Path(reference.name)
        if reference.name.startswith("~/"):
            path = Path.home() / reference.name[2:]
        return self.directory / path

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Accept only settings, which are created while a file is parsed."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(_taken_as_it_is)


def literal(name: str, value: str, place: str, directory: Path = Path()) -> Setting:
    """Create a setting.

    Raises:
        ValueError: a reference in it is malformed.
    """
    parts_of(value)
    return Setting(value, place, directory, hidden=names_secret(name))


def parts_of(raw: str) -> list[str | Reference]:
    """Split a text into plain parts and references.

    Raises:
        ValueError: a reference is malformed.
    """
    parts: list[str | Reference] = []
    end = 0
    for match in _REFERENCE.finditer(raw):
        parts.append(raw[end : match.start()])
        parts.append("${" if match[0] == "$${" else _reference(match))
        end = match.end()
    parts.append(raw[end:])
    return [part for part in parts if part] or [""]


def others_may_read(path: Path) -> bool:
    """Whether group or others can read the file; False if unknown."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return bool(mode & (stat.S_IRGRP | stat.S_IROTH))


def _reference(match: re.Match[str]) -> Reference:
    source, colon, name = match[1].partition(":")
    if source not in ("env", "file") or not colon or not name or not match[2]:
        raise ValueError(
            "contains a ${ that is neither ${env:NAME} nor ${file:PATH} (write $${ for a plain ${)"
        )
    return Reference("env" if source == "env" else "file", name)


def _taken_as_it_is(value: object) -> Setting:
    if isinstance(value, Setting):
        return value
    raise ValueError("must be text, a number, true or false")
