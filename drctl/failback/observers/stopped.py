"""The site's own look at what copied from the source, where no connectors stand for it."""

from collections.abc import Callable

from drctl.failback.facts import Stopped


def observe_stopped(told: Callable[[], tuple[bool, str] | None]) -> Stopped | None:
    """What its command says; None where drctl.yaml names none.

    Raises:
        Unreachable: it did not run, or not to its end.
    """
    found = told()
    if found is None:
        return None
    held, said = found
    words = f"the site's command says that it is {'stopped' if held else 'not stopped'}"
    return Stopped(held, f"{words} ({said})" if said else words)
