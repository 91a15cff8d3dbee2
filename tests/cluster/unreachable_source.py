"""A link whose source address is unused, and the same link before the source was lost."""

from typing import Any
from uuid import uuid4

from tests.cluster.groups import commit_offsets
from tests.cluster.lab_link import Site, cluster_section, link_over
from tests.kafka.tls_broker import free_ports


class Silent:
    """A topic of one partition, groups with offsets, and drctl."""

    def __init__(self, site: Site, topic: str, **link: Any) -> None:
        self.source, self.target = site.clusters
        self.topic = topic
        self.prefix = f"app-{uuid4().hex[:8]}"
        links = {"main": link_over(topic, groups=[f"{self.prefix}-.*"], **link)}
        primary, secondary = map(cluster_section, site.clusters)
        gone = {**primary, "bootstrap": f"127.0.0.1:{free_ports(1)[0]}"}
        self.alive, self.silent = (
            site.new_drctl(links, clusters={"primary": source, "secondary": secondary}).offsets
            for source in (primary, gone)
        )

    def commit(self, **offsets: int) -> None:
        commit_offsets(
            self.source,
            self.topic,
            {f"{self.prefix}-{name}": {0: offset} for name, offset in offsets.items()},
        )

    def track(self) -> dict[str, Any]:
        return self.alive.json("track", "--once", "--execute", "--yes")

    def rows(self, *, missing: list[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return the translation by group when the source is lost."""
        document = self.silent.json("translate", code=5)
        assert document["source_unreachable"]
        assert document["missing_evidence"] == (missing or [])
        return self.by_group(document)

    def by_group(self, document: dict[str, Any]) -> dict[str, dict[str, Any]]:
        return {row["group"].removeprefix(f"{self.prefix}-"): row for row in document["rows"]}
