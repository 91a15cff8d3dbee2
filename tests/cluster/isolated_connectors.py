"""MirrorMaker 2 connectors for a single test, besides those of the lab."""

from collections.abc import Mapping
from typing import Any

from drctl.lab.lab import Lab
from drctl.lab.mirrors import Direction, login
from tests.cluster.link_command import soon

ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"
POLICY = "org.apache.kafka.connect.mirror.{}ReplicationPolicy"


def settings(
    lab: Lab, source: str, target: str, topics: str, policy: str = "Identity", **more: str
) -> dict[str, str]:
    """Return a connector that replicates as the administrator: the lab's user lacks permissions.

    Args:
        more: other keys, with two underscores for each dot.
    """
    ends = lab.cluster(source), lab.cluster(target)
    config = dict(next(iter(Direction(lab.parts.settings, *ends).configurations()))[1])
    config |= {f"producer.override.{key}": value for key, value in login(ends[1]).items()}
    for cluster in ends:
        user, admin = (cluster.password_file(each).name for each in ("replicator", "admin"))
        config = {key: value.replace(f":{user}}}", f":{admin}}}") for key, value in config.items()}
    mine = 'username="replicator"', 'username="admin"'
    config = {key: value.replace(*mine) for key, value in config.items()}
    return {
        **config,
        "topics": topics,
        "replication.policy.class": POLICY.format(policy),
        "sync.topic.configs.enabled": "false",
        # Otherwise the lab's own connectors would find heartbeats that they may not read, and fail.
        "heartbeats.replication.enabled": "false",
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def mirror_of(lab: Lab, forward: str, reverse: str = "", **more: object) -> dict[str, Any]:
    """Return a section of drctl.yaml with these connectors."""
    ends = ({"source": forward}, {"source": reverse})
    there, back = ({"connect": lab.parts.worker.url, "connectors": each} for each in ends)
    return {"kind": "mirrormaker2", **there, **({"reverse": back} if reverse else {}), **more}


class Connectors:
    """Connectors that are deleted at the end."""

    def __init__(self, lab: Lab) -> None:
        self._client = lab.parts.worker.client()
        self._made: list[str] = []

    def create(self, name: str, config: Mapping[str, str], *, running: bool = False) -> None:
        """Create a connector, stopped unless it is to run."""
        self._made.append(name)
        self._client.create_stopped(name, config)
        if running:
            self.run(name)

    def run(self, *names: str) -> None:
        """Start them, and wait until they run."""
        for name in names:
            self._client.resume(name)
        self._await("RUNNING", names)

    def stop(self, *names: str) -> None:
        """Stop them; their offsets are kept."""
        for name in names:
            self._client.stop(name)
        self._await("STOPPED", names)

    def configure(self, name: str, **changes: str) -> None:
        """Set some keys, with two underscores for each dot."""
        new = {key.replace("__", "."): value for key, value in changes.items()}
        self._client.put_config(name, {**self._client.config(name), **new})

    def config(self, name: str) -> dict[str, str]:
        """Return the current configuration."""
        return self._client.config(name)

    def states(self, *names: str) -> list[str]:
        return [self._client.status(name).state for name in names]

    def close(self) -> None:
        for name in self._made:
            if name in self._client.connectors():
                self._client.delete(name)
        self._client.close()

    def _await(self, state: str, names: tuple[str, ...]) -> None:
        def settled() -> bool:
            known = self._client.statuses()  # a connector that was just created may be absent
            return all(name in known and known[name].all_in(state) for name in names)

        soon(settled, f"{names} are not {state}")
