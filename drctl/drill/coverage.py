"""Whether the link's replicator copies what a drill makes; by its configuration, before it does."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drctl.config.mirrors import pattern_of
from drctl.drill.names import Scratch
from drctl.model.errors import Refused

# What MirrorMaker 2 leaves out where nothing is set; `.*[-.]internal` of older ones fits no drill.
_EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"
_REFRESH_S = 600.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a replicator says of the topics that it copies.

    Attributes:
        patterns: one of them must match a name whole.
        excluded: none of these may.
        refresh_s: how long it may take to see a new topic.
        connector: its name; empty where nobody knows one.
    """

    patterns: tuple[str, ...] = (".*",)
    excluded: tuple[str, ...] = ()
    refresh_s: float = 0.0
    connector: str = ""

    def copies(self, name: str) -> bool:
        """Whether a topic of this name is copied."""
        return _any(self.patterns, name) and not _any(self.excluded, name)

    def require(self, scratch: Scratch) -> None:
        """Go on only where the drill's topic is copied.

        Raises:
            Refused: it is not.
        """
        if self.copies(scratch.topic):
            return
        within, without = ", ".join(self.patterns), ", ".join(self.excluded)
        told = f"{within}, but for {without}" if without else within
        raise Refused(
            f"connector {self.connector} copies topics that match {told}: none is called"
            f" {scratch.topic}",
            "give a beginning that it copies, and that no application subscribes to:"
            " --topic-prefix PREFIX; or add .*drctl-drill-.* to its topics",
        )


def coverage(connector: str, config: Mapping[str, str]) -> Coverage:
    """What a source connector's configuration says."""
    kind = config.get("connector.class", "").rpartition(".")[2]
    if kind == "MirrorSourceConnector":
        refreshed = config.get("refresh.topics.interval.seconds", "")
        return Coverage(
            _words(config.get("topics", ".*")),
            _words(config.get("topics.exclude", _EXCLUDED)),
            float(refreshed) if refreshed.isdecimal() else _REFRESH_S,
            connector,
        )
    listed = map(pattern_of, _words(config.get("topic.whitelist", "")))
    patterns = (*listed, *filter(None, [config.get("topic.regex", "")]))
    excluded = tuple(map(pattern_of, _words(config.get("topic.blacklist", ""))))
    return Coverage(patterns or (".*",), excluded, 0.0, connector)


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.fullmatch(pattern, name) is not None
    except re.error:
        # Only Java understands it: then only time tells whether it matches.
        return True


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())
