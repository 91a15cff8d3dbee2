"""Numbers in the text format that Prometheus reads (version 0.0.4)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number; None where there is none yet."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    value: float | None


def exposition(metrics: Iterable[Metric], labels: Mapping[str, str]) -> str:
    """All metrics, with the same labels."""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    lines = []
    for metric in metrics:
        if metric.value is not None:
            lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} {metric.kind}")
            lines.append(f"{metric.name}{{{inside}}} {metric.value!r}")
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
