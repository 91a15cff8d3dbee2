"""Leaves drctl's own copies out of what a connector copies: a filter of Connect (KIP-585).

A copy names its original in a header. What only the cluster has that it was copied from needs no
second one there.
"""

from collections.abc import Mapping

from drctl.wire.provenance import HEADER

_NAME = "drctlCopies"
_TRANSFORMS, _PREDICATES = "transforms", "predicates"
_PACKAGE = "org.apache.kafka.connect.transforms"
_FILTER, _BY_HEADER = ".transforms.Filter", ".predicates.HasHeaderKey"


def drops_copies(config: Mapping[str, str]) -> bool:
    """Whether a connector leaves out records that have drctl's header."""
    for name in _words(config.get(_TRANSFORMS, "")):
        of = f"{_TRANSFORMS}.{name}."
        predicate = f"{_PREDICATES}.{config.get(of + 'predicate', '')}."
        if (
            config.get(of + "type", "").endswith(_FILTER)
            and config.get(of + "negate", "false").lower() != "true"
            and config.get(predicate + "type", "").endswith(_BY_HEADER)
            and config.get(predicate + "name") == HEADER
        ):
            return True
    return False


def filter_to_add(config: Mapping[str, str]) -> dict[str, str]:
    """The keys that make it so; transforms that are there stay, and come before it."""
    return {
        _TRANSFORMS: ",".join((*_words(config.get(_TRANSFORMS, "")), _NAME)),
        f"{_TRANSFORMS}.{_NAME}.type": f"{_PACKAGE}.Filter",
        f"{_TRANSFORMS}.{_NAME}.predicate": _NAME,
        _PREDICATES: ",".join((*_words(config.get(_PREDICATES, "")), _NAME)),
        f"{_PREDICATES}.{_NAME}.type": f"{_PACKAGE}.predicates.HasHeaderKey",
        f"{_PREDICATES}.{_NAME}.name": HEADER,
    }


def filter_to_take_out(config: Mapping[str, str]) -> dict[str, str | None]:
    """The keys that take drctl's own filter out again; whatever a person has added stays."""
    if _NAME not in _words(config.get(_TRANSFORMS, "")):
        return {}
    found: dict[str, str | None] = {}
    for key in (_TRANSFORMS, _PREDICATES):
        left = ",".join(word for word in _words(config.get(key, "")) if word != _NAME)
        found[key] = left or None
        found |= {name: None for name in config if name.startswith(f"{key}.{_NAME}.")}
    return found


def is_own_change(key: str, value: str | None) -> bool:
    """Whether a change of a connector's configuration can be one of those above."""
    if key in (_TRANSFORMS, _PREDICATES):
        return value is None or isinstance(value, str)
    fixed = filter_to_add({})
    own = key.startswith((f"{_TRANSFORMS}.{_NAME}.", f"{_PREDICATES}.{_NAME}."))
    return own and (value is None or fixed.get(key) == value)


def without_own_filter(config: Mapping[str, str]) -> dict[str, str]:
    """The configuration as it is once that is done."""
    changed = {**config, **filter_to_take_out(config)}
    return {name: value for name, value in changed.items() if value is not None}


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (word.strip() for word in text.split(","))))
