"""The lab of a benchmark run, and its data."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from signal import SIGKILL
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from bench.filling import Appender, create_topics
from bench.records import Variant, chunks
from drctl.config.loading import load
from drctl.lab.cluster import LabCluster
from drctl.lab.lab import Lab
from drctl.lab.settings import LabSettings
from drctl.lab.starting import free_port_base

HEAP_MB = 1024


@dataclass(frozen=True, slots=True)
class Dataset:
    """A source topic and one target topic per variant.

    Attributes:
        total: records on the source.
        on_target: records on the target, by variant.
    """

    total: int
    on_target: Mapping[Variant, int]

    @property
    def topic(self) -> str:
        """The source topic."""
        return f"bench-{self.total}"

    def target_topic(self, variant: Variant) -> str:
        """The topic of a variant on the target."""
        return f"{self.topic}.{variant.name}"

    def link(self, variant: Variant) -> str:
        """The link of a variant."""
        return f"{self.total}-{variant.name}"

    def missing(self, variant: Variant) -> int:
        """Number of records that drctl has to find."""
        return self.total - self.on_target[variant]

    def read(self, variant: Variant) -> int:
        """Records of both sides together."""
        return self.total + self.on_target[variant]


@dataclass(slots=True)
class Stage:
    """Two real clusters; data is written when first needed, and then kept.

    Attributes:
        folder: for files of the benchmarks.
        start_ms: timestamp of the first record, in milliseconds since 1970 UTC.
    """

    lab: Lab
    folder: Path
    tell: Callable[[str], None]
    start_ms: int = field(default_factory=lambda: round(time.time() * 1000) - 24 * 3_600_000)
    _made: dict[int, Dataset] = field(default_factory=dict)

    @property
    def config(self) -> Path:
        """The drctl.yaml with a link for each variant of each dataset."""
        return self.folder / "drctl.yaml"

    @property
    def source(self) -> LabCluster:
        """The source cluster."""
        return self.lab.cluster("primary")

    @property
    def target(self) -> LabCluster:
        """The target cluster."""
        return self.lab.cluster("secondary")

    @property
    def clusters(self) -> tuple[LabCluster, LabCluster]:
        """Both clusters."""
        return self.source, self.target

    def configured(self, name: str, links: Mapping[str, Any], **sections: Any) -> Path:
        """Write a valid drctl.yaml to a folder of this name.

        Raises:
            ConfigError: it is invalid.
        """
        config = self.folder / name / "drctl.yaml"
        config.parent.mkdir(exist_ok=True)
        self._write_config(config, links, **sections)
        return config

    def data(self, total: int, variants: Sequence[Variant]) -> Dataset:
        """Write these records to the source and, except what variants omit, to the target."""
        known = self._made.get(total)
        missing = [v for v in variants if known is None or v not in known.on_target]
        if missing:
            names = ", ".join(variant.title for variant in missing)
            self.tell(f"writing {total:,} records a side: {names}")
            before = known.on_target if known else {}
            self._made[total] = self._write(Dataset(total, before), missing)
            self._write_config(self.config, self.links)
        return self._made[total]

    def _write(self, dataset: Dataset, variants: Sequence[Variant]) -> Dataset:
        topic, total = dataset.topic, dataset.total
        source, target = Appender(self.source), Appender(self.target)
        fresh = not dataset.on_target
        if fresh:
            create_topics(self.source, [topic])
        create_topics(self.target, [dataset.target_topic(v) for v in variants])
        for first, messages in chunks(total, self.start_ms):
            if fresh:
                source.append(topic, messages)
            for variant in variants:
                left = [m for n, m in enumerate(messages, first) if not variant.omits(n, total)]
                target.append(dataset.target_topic(variant), left)
        source.finish()
        target.finish()
        counts = {v: target.counts[dataset.target_topic(v)] for v in variants}
        return Dataset(total, {**dataset.on_target, **counts})

    @property
    def links(self) -> Mapping[str, Any]:
        """A link for each variant of each dataset."""

        def replicator(variant: Variant) -> dict[str, str]:
            # True if a variant omits only the last records.
            return {"kind": "offset-preserving", "rename": f"${{topic}}.{variant.name}"}

        return {
            dataset.link(variant): link_over(dataset.topic, replicator=replicator(variant))
            for dataset in self._made.values()
            for variant in dataset.on_target
        }

    def _write_config(self, config: Path, links: Mapping[str, Any], **sections: Any) -> None:
        clusters = {c.name: cluster_section(c) for c in self.clusters}
        document = {"clusters": clusters, "links": dict(links), **sections}
        config.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        load(config)


def link_over(*topics: str, **more: Any) -> dict[str, Any]:
    """A link in drctl.yaml."""
    return {"from": "primary", "to": "secondary", "topics": list(topics), **more}


def cluster_section(cluster: LabCluster) -> dict[str, Any]:
    """A cluster of the lab in drctl.yaml, with the password from the lab's own file."""
    properties = cluster.public_properties("admin")
    bootstrap = properties.pop("bootstrap.servers")
    properties["sasl.password"] = f"${{file:{cluster.password_file('admin')}}}"
    return {"bootstrap": bootstrap, "properties": properties}


@contextmanager
def opened_stage(tell: Callable[[str], None]) -> Iterator[Stage]:
    """Start a lab with brokers at full speed; remove it at the end.

    Raises:
        DrctlError: it does not start.
    """
    with TemporaryDirectory(prefix="drctl-bench-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab", tell)
        settings = LabSettings(port_base=free_port_base(Random()), heap_mb=HEAP_MB, full_speed=True)
        try:
            lab.up(settings)
            # Nothing is replicated here: MirrorMaker 2 would only slow down the measurements.
            lab.signal("connect", SIGKILL)
            yield Stage(lab, folder, tell)
        finally:
            tell("taking the lab down")
            lab.down()
