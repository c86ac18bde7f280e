"""Small charts in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltacli.units import human_size

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[int], width: int = 60) -> str:
    """The course of some numbers; more than `width` of them are thinned, the last one kept."""
    if not values:
        return ""
    if len(values) > width:
        step = (len(values) - 1) / (width - 1)
        values = [values[round(position * step)] for position in range(width)]
    low, high = min(values), max(values)
    if low == high:
        return _BARS[3] * len(values)
    return "".join(_BARS[(value - low) * (len(_BARS) - 1) // (high - low)] for value in values)


def chart_lines(series: Sequence[tuple[str, Sequence[int], str, str]]) -> list[str]:
    """One line a series: name, course, first and last value."""
    wide = max((len(name) for name, *_ in series), default=0)
    return [
        f"{name:<{wide}}  {sparkline(values)}  {first} -> {last}"
        for name, values, first, last in series
    ]


def size_chart(sizes: Mapping[int, tuple[int, int]]) -> list[str]:
    """The course of files and bytes over versions in ascending order."""
    if not sizes:
        return []
    files = [files for files, _ in sizes.values()]
    bytes_ = [size for _, size in sizes.values()]
    versions = list(sizes)
    return [
        f"versions {versions[0]} to {versions[-1]}",
        *chart_lines(
            [
                ("numFiles", files, f"{files[0]:,}", f"{files[-1]:,}"),
                ("sizeInBytes", bytes_, human_size(bytes_[0]), human_size(bytes_[-1])),
            ]
        ),
    ]
