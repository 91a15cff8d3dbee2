"""A text of drctl.yaml that may refer to `${env:NAME}` and `${file:PATH}`; read when needed."""

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
    """A text as written; `resolve` gives what it stands for.

    Attributes:
        place: `FILE:LINE:COLUMN: path.to.field`, the head of every message about it.
        directory: what relative file names start from.
        hidden: whether the text itself is a secret, for its name says so.
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
        """The text for people: references as written, literal secrets masked."""
        if not self.hidden:
            return hide_user_info(self.raw)
        parts = parts_of(self.raw)
        return "".join(str(p) if isinstance(p, Reference) else MASK for p in parts if p)

    @property
    def references(self) -> tuple[Reference, ...]:
        """What must be read from elsewhere, in order."""
        return tuple(part for part in parts_of(self.raw) if isinstance(part, Reference))

    def resolve(self, environ: Mapping[str, str]) -> str | Secret:
        """What the setting stands for; a `Secret` where it refers to anything or is hidden.

        What is secret in it is masked from now on in whatever this command line shows.

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
            said = " and ".join(f"{part} is" for part in self.references)
            raise ConfigError(f"{self.place}: {said} empty")
        secret = self.hidden or self.references or text != hide_user_info(text)
        return Secret(text) if secret else text

    def exposed_files(self) -> Iterator[str]:
        """A warning for each referenced file that others than its owner may read."""
        for reference in self.references:
            if reference.source == "file":
                path = self._path(reference)
                if others_may_read(path):
                    remedy = f"chmod 600 {arguments(str(path))}"
                    yield f"{self.place}: {path} can be read by other users: {remedy}"

    def _read(self, reference: Reference, environ: Mapping[str, str]) -> str:
        if reference.source == "env":
            if reference.name not in environ:
                raise ConfigError(
                    f"{self.place}: the environment variable {reference.name} is not set",
                    f"export {reference.name}, or name another source for the value",
                )
            return environ[reference.name]
        path = self._path(reference)
        try:
            with path.open("rb") as file:
                content = file.read(_LONGEST_FILE + 1)
            if len(content) > _LONGEST_FILE:
                raise ConfigError(f"{self.place}: {path} is longer than {_LONGEST_FILE} bytes")
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
        """Settings are made while a file is read; everything else is refused."""
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(_taken_as_it_is)


def literal(name: str, value: str, place: str, directory: Path = Path()) -> Setting:
    """A setting of this name.

    Raises:
        ValueError: a reference in it is not well formed.
    """
    parts_of(value)
    return Setting(value, place, directory, hidden=names_secret(name))


def parts_of(raw: str) -> list[str | Reference]:
    """The text cut into plain pieces and references.

    Raises:
        ValueError: a reference is not well formed.
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
    """Whether the file's mode lets its group or everybody read it; False where it cannot tell."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return bool(mode & (stat.S_IRGRP | stat.S_IROTH))


def _reference(match: re.Match[str]) -> Reference:
    source, colon, name = match[1].partition(":")
    if source not in ("env", "file") or not colon or not name or not match[2]:
        raise ValueError(
            "holds a ${ that is neither ${env:NAME} nor ${file:PATH} ($${ for a plain ${)"
        )
    return Reference("env" if source == "env" else "file", name)


def _taken_as_it_is(value: object) -> Setting:
    if isinstance(value, Setting):
        return value
    raise ValueError("must be text, a number, true or false")
