"""Endpoints opened from a drctl.yaml, as commands do."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from drctl.config.endpoints import EndpointConfig
from drctl.config.link import Link
from drctl.config.loading import read
from drctl.endpoints.registry import Surroundings, open_reader, open_writer
from drctl.model.endpoints import EndpointReader, EndpointState, EndpointWriter
from drctl.model.typed_json import read_as, to_json

BOOTSTRAPS = {"primary": "p1:9092,p2:9092", "secondary": "s1:9092"}


@dataclass(frozen=True)
class Endpoint:
    """Reader and writer of an endpoint."""

    reader: EndpointReader
    writer: EndpointWriter

    def seen(self) -> EndpointState:
        """Return its state after a round trip through a journal."""
        return through_json(self.reader.observe())


def endpoint(
    settings: Mapping[str, Any], folder: Path, environ: Mapping[str, str] | None = None
) -> Endpoint:
    """Return the endpoint with these settings in a drctl.yaml of the folder."""
    around = Surroundings(_link(settings, folder), folder, environ or {})
    (section,) = around.link.settings.endpoints
    return Endpoint(open_reader(section, around), open_writer(section, around))


def section_of(settings: Mapping[str, Any], folder: Path) -> EndpointConfig:
    """Return the endpoint's section in drctl.yaml."""
    (section,) = _link(settings, folder).settings.endpoints
    return section


def through_json(state: EndpointState) -> EndpointState:
    """Return the state as a journal restores it."""
    again = read_as(EndpointState, json.loads(json.dumps(to_json(state))))
    assert again == state
    return again


def _link(settings: Mapping[str, Any], folder: Path) -> Link:
    link = {"from": "primary", "to": "secondary", "topics": ["orders"], "endpoints": [settings]}
    clusters = {name: {"bootstrap": address} for name, address in BOOTSTRAPS.items()}
    text = yaml.safe_dump({"clusters": clusters, "links": {"main": link}})
    return read(text, folder / "drctl.yaml").link()
