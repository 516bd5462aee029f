"""The pictures of the docs, drawn from what was measured; nothing else needs matplotlib."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

Point = dict[str, Any]

# Text stays text, and equal numbers give equal files.
plt.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "dsrt",
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "legend.frameon": False,
    }
)
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777", "#222222")


def draw_sweep(points: Sequence[Point], path: Path) -> None:
    """Draw speed by record size, ours beside the limit, and the share of the limit, a line a batch size."""
    figure, (speed, share) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for colour, batch in zip(_COLOURS, sorted({point["batch"] for point in points}), strict=False):
        line = [point for point in points if point["batch"] == batch]
        sizes = [point["size"] for point in line]
        speed.plot(sizes, [point["ours"] / 1e9 for point in line], color=colour, marker=".", label=f"{batch}")
        speed.plot(sizes, [point["limit"] / 1e9 for point in line], color=colour, linestyle=":", linewidth=1)
        share.plot(sizes, [point["ours"] / point["limit"] for point in line], color=colour, marker=".")
    speed.set(yscale="log", ylabel="GB/s (dotted: one memcpy a record)")
    share.set(ylabel="share of the limit")
    for axes in (speed, share):
        axes.set(xscale="log", xlabel="record size")
        axes.xaxis.set_major_formatter(FuncFormatter(_binary))
        axes.set_xticks([64, 1 << 10, 16 << 10, 256 << 10, 4 << 20])
        axes.minorticks_off()
        _plain(axes)
    share.set_ylim(bottom=0)
    figure.legend(*speed.get_legend_handles_labels(), title="batch size", loc="outside right center")
    _save(figure, path)


def draw_growth(points: Sequence[Point], path: Path) -> None:
    """Draw speed, times and memory by the number of rows in one cache, and by the number of caches."""
    figure, panels = plt.subplots(2, 3, figsize=(9, 5.4), layout="constrained")
    in_one = [point for point in points if point["caches"] == 1]
    # The longest line of points that have the same number of rows.
    rows = statistics.mode(point["rows"] for point in points)
    in_many = [point for point in points if point["rows"] == rows]
    for line, (speed, time, memory), label in (
        (in_one, panels[0], "rows in one cache"),
        (in_many, panels[1], f"caches, {rows:,} rows together"),
    ):
        x = [point["rows" if line is in_one else "caches"] for point in line]
        curves: dict[Axes, dict[str, list[float]]] = {
            speed: {name: [point[f"{name}_per_s"] / 1e6 for point in line] for name in ("weighted", "shuffle")},
            time: {
                "rules and tables, once": [point["rules_s"] for point in line],
                "open to first batch": [point["first_batch_s"] for point in line],
                "open caches": [point["open_s"] for point in line],
                "seek to first batch": [point["seek_s"] for point in line],
            },
            memory: {
                "resident with maps": [point["rss_warm_mib"] for point in line],
                "private": [point["private_warm_mib"] for point in line],
            },
        }
        for axes, lines in curves.items():
            for colour, (name, values) in zip(_COLOURS, lines.items(), strict=False):
                axes.plot(x, values, color=colour, marker=".", label=name)
            axes.set(xscale="log", xlabel=label)
            axes.legend(fontsize=7.5)
            if axes is speed:
                axes.set_ylim(bottom=0)
            else:
                axes.set_yscale("log")
            _plain(axes)
        speed.set_ylabel("million samples/s")
        time.set_ylabel("seconds")
        memory.set_ylabel("MiB of one process")
    _save(figure, path)


def _plain(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _binary(value: float, _: object) -> str:
    size = int(value)
    for shift, name in ((20, "MiB"), (10, "KiB")):
        if size >> shift:
            return f"{size >> shift} {name}"
    return f"{size} B"


def _save(figure: Figure, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
