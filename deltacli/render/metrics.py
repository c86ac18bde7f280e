"""Prometheus text for a textfile collector: what a cron job leaves behind for alerts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A gauge with its help, and one value a table."""

    name: str
    help: str
    values: Mapping[str, float | int]


def prometheus_text(metrics: Sequence[Metric]) -> str:
    lines = []
    for metric in metrics:
        if metric.values:
            lines.append(f"# HELP {metric.name} {metric.help}")
            lines.append(f"# TYPE {metric.name} gauge")
            lines += [
                f'{metric.name}{{table="{_label(table)}"}} {value}'
                for table, value in metric.values.items()
            ]
    return "\n".join(lines) + "\n"


def values_before(text: str, name: str) -> dict[str, float]:
    """One gauge's values in an earlier text, to be carried on."""
    pattern = rf'^{re.escape(name)}\{{table="((?:[^"\\]|\\.)*)"\}} ([0-9.e+]+)$'
    return {_plain(match[1]): float(match[2]) for match in re.finditer(pattern, text, re.MULTILINE)}


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _plain(label: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], label)
