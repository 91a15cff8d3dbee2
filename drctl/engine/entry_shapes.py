"""What each kind of entry must hold, checked once: whoever reads a journal relies on it.

A line may be sealed and still say anything: who can write to the topic can seal.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from drctl.engine.entries import Entry, What
from drctl.engine.kind import State
from drctl.model.runs import is_run

Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_text, value))


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(map(_text, value))


def _told(value: Any) -> bool:
    return _mapping(value) and all(map(_text, value.values()))


def _number(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 31


def _state(value: Any) -> bool:
    return _text(value) and value in set(State)


def _moment(value: Any) -> bool:
    return _text(value) and datetime.fromisoformat(value).tzinfo is not None


_STEP: Mapping[str, Check] = {"step": _text}
_EFFECT: Mapping[str, Check] = {**_STEP, "effect": _number}
_SEEN: Mapping[str, Check] = {"state": _state, "words": _text, "items": _texts}

_SHAPES: Mapping[What, Mapping[str, Check]] = {
    What.BEGAN: {"run": is_run, "fingerprint": _text, "who": _told, "plan": _mapping},
    What.RESUMED: {"who": _told},
    What.ABANDONED: {"why": _text, "stands": _told},
    What.INTEND: {**_EFFECT, "intent": _mapping},
    What.APPLIED: {**_EFFECT, "complaints": _texts},
    What.DONE: {**_EFFECT, "words": _text, "facts": _mapping, "items": _texts},
    What.FAILED: {**_STEP, **_SEEN},
    What.LOOKED: {**_EFFECT, "state": _state, "words": _text},
    What.STALE: {**_EFFECT, "words": _text},
    What.OWED: {**_STEP, "what": _text},
    What.PASSED: {**_STEP, **_SEEN},
    What.TURNED_BACK: {**_STEP, "why": _text},
    What.UNDOING: _EFFECT,
    What.UNDONE: {**_EFFECT, "words": _text},
    What.NOT_UNDONE: {**_EFFECT, **_SEEN},
    What.INTERRUPTED: _STEP,
    What.ENDED: {"status": _text},
}

_LATER: Mapping[str, Check] = {"overrides": _told}
"""What older journals do not have."""


def check_entry(entry: Entry) -> What:
    """See that an entry holds what its kind does; returns the kind.

    Raises:
        ValueError: it does not; what, in words.
    """
    what = What(str(entry.get("entry", "")))
    for name, holds in {"at": _moment, **_SHAPES[what]}.items():
        if name not in entry or not holds(entry[name]):
            raise ValueError(f"an entry {what.value!r} without a sound {name!r}")
    for name, holds in _LATER.items():
        if name in entry and not holds(entry[name]):
            raise ValueError(f"an entry {what.value!r} without a sound {name!r}")
    return what
