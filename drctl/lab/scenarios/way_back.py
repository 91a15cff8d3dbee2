"""What copies from the secondary to the primary: there from the first, and stopped until needed."""

from drctl.lab.lab import Lab
from drctl.lab.mirrors import Direction
from drctl.systems.connect.client import ConnectWriter

NAME = "mm2-source-reverse"


def configuration(lab: Lab) -> dict[str, str]:
    """Of the connector; as administrator, for the lab's replicator may not write to the primary."""
    ends = lab.cluster("secondary"), lab.cluster("primary")
    known = dict(Direction(lab.parts.settings, *ends).configurations())
    config = known[NAME]
    for cluster in ends:
        user, admin = (cluster.password_file(each).name for each in ("replicator", "admin"))
        config = {key: value.replace(f":{user}}}", f":{admin}}}") for key, value in config.items()}
    mine = 'username="replicator"', 'username="admin"'
    config = {key: value.replace(*mine) for key, value in config.items()}
    return {**config, "sync.topic.configs.enabled": "false"}


def deploy(lab: Lab, topic: str, name: str = NAME) -> None:
    """Put it on the worker, STOPPED; it has copied nothing, and knows nowhere to begin.

    Raises:
        ConnectRejected: there is one of this name.
        Unreachable: the worker does not answer.
    """
    client: ConnectWriter = lab.parts.worker.client()
    try:
        client.create_stopped(name, {**configuration(lab), "topics": topic})
    finally:
        client.close()


def remove(lab: Lab, name: str = NAME) -> None:
    """Take it away, and what it keeps of how far it got.

    Raises:
        Unreachable: the worker does not answer.
    """
    client = lab.parts.worker.client()
    try:
        if name in client.connectors():
            client.delete(name)
    finally:
        client.close()
