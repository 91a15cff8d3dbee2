"""A commented drctl.yaml from what was found on two clusters."""

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from drctl.config.mirrors import pattern_of
from drctl.config.survey import FoundMirror, Seen, common_topics
from drctl.model.errors import Refused, UsageError

_MOST_TOPICS = 20
_PLAIN = re.compile(r"[A-Za-z0-9$/][\w.:/,${}@*-]*(?<!:)")


@dataclass(frozen=True, slots=True)
class Draft:
    """What goes into the file."""

    first: Seen
    second: Seen
    mirrors: tuple[FoundMirror, ...]

    @property
    def forward(self) -> FoundMirror | None:
        """The replication of the link; what nothing is known of counts as this."""
        return next((m for m in self.mirrors if m.forward is not False), None)

    @property
    def backward(self) -> FoundMirror | None:
        """The replication that failback would use."""
        return next((m for m in self.mirrors if m.forward is False), None)

    @property
    def link(self) -> str:
        """The link's name."""
        return "main"

    @property
    def kind(self) -> str:
        """The link's kind of replicator."""
        return self.forward.mirror.kind if self.forward else "none"

    def notes(self) -> tuple[str, ...]:
        """What a person should look at, because looking at the clusters did not tell."""
        notes = [note for found in self.mirrors for note in found.mirror.notes]
        if self.forward is None:
            notes.append("no replicator from the first cluster to the second was found")
        elif self.forward.forward is None:
            name = self.forward.mirror.connectors["source"]
            notes.append(f"nothing tells in which direction {name} copies: check `from` and `to`")
        used = (self.forward, self.backward)
        for found in self.mirrors:
            if found not in used:
                notes.append(f"left out: connector {found.mirror.connectors['source']}")
        return tuple(notes)

    def text(self) -> str:
        """The file."""
        lines = [
            "# Configuration of drctl. Secrets stay outside: ${env:NAME} or ${file:PATH} stand",
            "# for them in properties and URLs. An error here is reported with line and column.",
            "clusters:",
            *self._cluster(self.first),
            *self._cluster(self.second),
            "",
            "links:",
            f"  {self.link}:",
            f"    from: {word(self.first.name)}  # as replication runs now",
            f"    to: {word(self.second.name)}",
            *self._topics(),
            *self._replicator(),
            "    # How applications are kept from writing to the source:",
            '    # fence: {method: acl, principals: ["User:orders-app"]}',
            "    # identity: [key, value, headers, timestamp]  # fields that survive replication",
            "",
            "policy:",
            "  max_lag_records: 0    # a planned failover refuses above this",
            "  max_rpo_seconds: 30",
            "  order: per-key        # per-key, per-partition or none: what the applications need",
            "",
            "spark:",
            "  master: local[*]      # or spark://..., yarn, k8s://...",
            "",
            "state_dir: .drctl",
        ]
        return "\n".join(lines) + "\n"

    def _cluster(self, seen: Seen) -> list[str]:
        lines = [
            f"  {seen.name}:  # id {seen.cluster_id}, {len(seen.topics)} topics",
            f"    bootstrap: {word(seen.bootstrap)}",
        ]
        if not seen.properties:
            return [*lines, "    # properties: {}     # any property of librdkafka"]
        return [
            *lines,
            "    properties:  # any property of librdkafka",
            *(f"      {word(name)}: {word(value)}" for name, value in seen.properties.items()),
        ]

    def _topics(self) -> list[str]:
        if self.forward:
            mirror = self.forward.mirror
            lines = [
                f"    topics: {words(mirror.topics)}  # full-match regexes, as the replicator's"
            ]
            if mirror.exclude:
                lines.append(f"    exclude: {words(mirror.exclude)}")
            return [*lines, f"    groups: {words(mirror.groups)}"]
        both, _ = common_topics(self.first, self.second)
        if not both or len(both) > _MOST_TOPICS:
            return [f'    topics: [".*"]  # full-match regexes; {len(both)} are on both sides']
        literal = [pattern_of(topic) for topic in both]
        return [f"    topics: {words(literal)}  # full-match regexes; these are on both sides"]

    def _replicator(self) -> list[str]:
        found = self.forward
        if found is None:
            _, rename = common_topics(self.first, self.second)
            return [
                "    replicator:",
                "      kind: none  # or mirrormaker2, confluent-replicator, offset-preserving",
                f"      rename: {word(rename)}  # a topic's name on the target",
            ]
        lines = [
            "    replicator:",
            f"      kind: {found.mirror.kind}",
            *_workers(found, "      "),
            f"      rename: {word(found.mirror.rename)}  # a topic's name on the target",
        ]
        if self.backward:
            lines += ["      reverse:  # what failback uses", *_workers(self.backward, "        ")]
            lines.append(f"        rename: {word(self.backward.mirror.rename)}")
        return lines


def word(text: str) -> str:
    """A text as YAML reads it back, plain where that is the same."""
    if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return json.dumps(text)


def words(texts: Sequence[str]) -> str:
    """A list of texts on one line."""
    return json.dumps(list(texts))


def must_be_free(path: Path) -> None:
    """No file is written over.

    Raises:
        Refused: there is one.
    """
    if path.exists() or path.is_symlink():
        raise Refused(f"{path} exists; nothing was changed", "name another one with --file")


def write_new(path: Path, text: str) -> None:
    """The whole file or none, readable by its owner only, and never over another.

    Raises:
        Refused: there is a file of this name now.
        UsageError: it cannot be written there.
    """
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8") as new:
            new.write(text)
            new.flush()
            os.link(new.name, path)
    except FileExistsError:
        must_be_free(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _workers(found: FoundMirror, indent: str) -> list[str]:
    connectors = ", ".join(
        f"{role}: {json.dumps(n)}" for role, n in found.mirror.connectors.items()
    )
    return [
        f"{indent}connect: {words(found.urls)}",
        f"{indent}connectors: {{{connectors}}}",
    ]
