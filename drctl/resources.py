"""Files that ship with drctl beside its code: templates and runbooks."""

from pathlib import Path

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """The folder `name`, from the wheel or from a checkout.

    Raises:
        FileNotFoundError: it is missing in this installation.
    """
    for base in (_PACKAGE / "_data", _PACKAGE.parent):
        if (base / name).is_dir():
            return base / name
    raise FileNotFoundError(f"drctl was installed without its folder {name!r}")
