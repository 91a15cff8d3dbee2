"""Java properties files: how options reach a JVM without standing on its command line."""

import os
from collections.abc import Mapping
from pathlib import Path

_ESCAPES = str.maketrans(
    {
        **{c: f"\\{c}" for c in "\\=:#! "},
        **{"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"},
    }
)


def properties_text(properties: Mapping[str, str]) -> str:
    """What `java.util.Properties` reads as these."""
    lines = (f"{k.translate(_ESCAPES)}={v.translate(_ESCAPES)}\n" for k, v in properties.items())
    return "".join(lines)


def write_secretly(path: Path, properties: Mapping[str, str]) -> None:
    """A new file of mode 0600 from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(properties_text(properties))
