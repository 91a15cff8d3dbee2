"""Files that only their owner may read."""

import os
from collections.abc import Mapping
from pathlib import Path


def private_folder(path: Path) -> Path:
    """Make a folder (and its parents) that only its owner may enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, text: str) -> None:
    """Replace a file at once; at no moment may anybody else read it."""
    private_folder(path.parent)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.unlink(missing_ok=True)
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def write_properties(path: Path, properties: Mapping[str, object]) -> None:
    """A Java properties file."""
    lines = (f"{name}={_escaped(str(value))}\n" for name, value in properties.items())
    write_private(path, "".join(lines))


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
