"""A link as in `drctl.yaml`."""

import json
from pathlib import Path

from drctl.config.configuration import Config
from drctl.config.link import Link
from drctl.config.loading import read


def link(source: str = "primary", target: str = "secondary", **settings: object) -> Link:
    """Return a link with topic orders by default."""
    return configuration(source, target, **settings).link()


def configuration(source: str = "primary", target: str = "secondary", **settings: object) -> Config:
    """Return a configuration with this link."""
    main = {"from": source, "to": target, "topics": ["orders"], **settings}
    clusters = {name: {"bootstrap": f"{name}:1"} for name in (source, target)}
    document = {"clusters": clusters, "links": {"main": main}}
    return read(json.dumps(document), Path("drctl.yaml"))
