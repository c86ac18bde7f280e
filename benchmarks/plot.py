"""Draws what `run.py` measured: `python benchmarks/plot.py [results.json] > docs/benchmarks.svg`.

A panel a job: seconds (or megabytes) over the size of the table, both in powers of ten.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COLORS = {"deltacli": "#0969da", "deltalake": "#bc4c00", "delta-spark": "#6e7781",
          "delta-sharing": "#bc4c00", "pyarrow": "#bc4c00"}  # fmt: skip
WIDTH, HEIGHT, GAP, COLUMNS = 250, 170, 64, 3
MEASURES = (("seconds", "s"), ("megabytes", "MB"))
Point = tuple[float, float]


def panels(results: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[Any]]]:
    """Jobs that were measured at several sizes, with each side's runs by size."""
    found: dict[str, dict[str, list[Any]]] = {}
    for one in results:
        if "size" not in one:
            continue
        sides = found.setdefault(f"{one['job']} ({one['unit']})", {})
        for side, run in one["runs"].items():
            sides.setdefault(side, []).append((one["size"], run))
    return {job: sides for job, sides in found.items() if len(sides["deltacli"]) > 1}


def drawing(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    jobs = panels(results)
    rows = math.ceil(len(jobs) / COLUMNS)
    band = rows * (HEIGHT + GAP) + 40
    width = COLUMNS * (WIDTH + GAP) + GAP
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{2 * band + 40}" '
        'font-family="sans-serif" font-size="11">'
    )
    yield '<rect width="100%" height="100%" fill="#ffffff"/>'
    x = GAP
    for side in dict.fromkeys(side for sides in jobs.values() for side in sides):
        yield f'<text x="{x}" y="20" fill="{COLORS[side]}" font-weight="bold">{side}</text>'
        x += 110
    for number, (measure, unit) in enumerate(MEASURES):
        top = 40 + number * band
        yield f'<text x="{GAP}" y="{top + 12}" font-size="13">{measure}</text>'
        for position, (job, sides) in enumerate(jobs.items()):
            left = GAP + position % COLUMNS * (WIDTH + GAP)
            above = top + 40 + position // COLUMNS * (HEIGHT + GAP)
            yield f'<g transform="translate({left},{above})">'
            lines = {
                side: [(size, run[measure]) for size, run in sorted(runs, key=lambda one: one[0])]
                for side, runs in sides.items()
            }
            yield from panel(job, unit, lines)
            yield "</g>"
    yield "</svg>"


def panel(title: str, unit: str, lines: Mapping[str, Sequence[Point]]) -> Iterator[str]:
    points = [one for line in lines.values() for one in line]
    low_x, high_x = _span(x for x, _ in points)
    low_y, high_y = _span(y for _, y in points)

    def place(point: Point) -> Point:
        x = (math.log10(point[0]) - low_x) / (high_x - low_x) * WIDTH
        y = HEIGHT - (math.log10(point[1]) - low_y) / (high_y - low_y) * HEIGHT
        return round(x, 1), round(y, 1)

    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#d0d7de"/>'
    yield f'<text y="-6" font-weight="bold">{escape(title)}</text>'
    for power in range(low_y, high_y + 1):
        y = place((10**low_x, 10.0**power))[1]
        yield f'<line x1="0" x2="{WIDTH}" y1="{y}" y2="{y}" stroke="#eaeef2"/>'
        yield f'<text x="-4" y="{y + 4}" text-anchor="end">{10.0**power:g} {unit}</text>'
    for power in range(low_x, high_x + 1):
        x = place((10.0**power, 10.0**low_y))[0]
        yield f'<text x="{x}" y="{HEIGHT + 14}" text-anchor="middle">{_count(power)}</text>'
    for side, line in lines.items():
        path = " ".join(f"{x},{y}" for x, y in map(place, line))
        yield f'<polyline points="{path}" fill="none" stroke="{COLORS[side]}" stroke-width="2"/>'
        for x, y in map(place, line):
            yield f'<circle cx="{x}" cy="{y}" r="3" fill="{COLORS[side]}"/>'


def _span(values: Iterator[float]) -> tuple[int, int]:
    logs = [math.log10(one) for one in values]
    low, high = math.floor(min(logs) + 1e-9), math.ceil(max(logs) - 1e-9)
    return low, max(high, low + 1)


def _count(power: int) -> str:
    return f"{10 ** (power - 6)}M" if power >= 6 else f"{10 ** (power - 3)}k"


def main() -> None:
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "results.json"
    print("\n".join(drawing(json.loads(source.read_text()))))


if __name__ == "__main__":
    main()
