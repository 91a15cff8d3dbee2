"""The Prometheus text format, version 0.0.4."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric; it is omitted if it has no rows.

    Attributes:
        rows: values, each with its own labels.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    rows: Sequence[tuple[Labels, float]]


def exposition(metrics: Iterable[Metric], labels: Labels) -> str:
    """Format metrics; each value has these labels and its own."""
    lines = []
    for metric in metrics:
        if metric.rows:
            lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
        for own, value in metric.rows:
            every = {**labels, **own}.items()
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in every)
            lines.append(f"{metric.name}{{{inside}}} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
