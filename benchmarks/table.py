"""From measurements to the table: ratios of one trial at a time, then their median, min and max."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.case import Row, load
from benchmarks.data import Data
from benchmarks.run import Measured

HEAD = """| workload | ours | times the baseline (min - max) | reach | | the limit | baseline |
| --- | --- | --- | --- | --- | --- | --- |"""


@dataclass(frozen=True)
class Ratio:
    """By what factor ours is better than another, in equal trials."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, other: Sequence[float], ours: Sequence[float]) -> Ratio:
        """Compare trial with trial."""
        ratios = [theirs / mine for theirs, mine in zip(other, ours, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))


class Table:
    """The measurements of a run as Markdown."""

    def __init__(self, data: Data, measured: Sequence[Measured]) -> None:
        self._data = data
        self._values: dict[tuple[str, str], list[float]] = {}
        for one in sorted(measured, key=lambda one: one.trial):
            for measure, value in one.measures.items():
                self._values.setdefault((one.workload, f"{one.case}.{measure}"), []).append(value)

    def markdown(self) -> str:
        """Return one line a row whose own side was measured."""
        lines = [HEAD]
        for workload in dict.fromkeys(workload for workload, _ in self._values):
            lines += [self._line(workload, row) for row in load(workload).ROWS if (workload, row.ours) in self._values]
        return "\n".join(lines)

    def _line(self, workload: str, row: Row) -> str:
        ours = self._values[workload, row.ours]
        base = self._values.get((workload, row.base))
        cells = [row.name, self._speed(row, ours)]
        if base is None:
            cells += ["not measured", _reach(row), ""]
        else:
            ratio = Ratio.of(base, ours)
            verdict = "" if row.target is None else "met" if ratio.median >= row.target else "**not met**"
            cells += [f"{ratio.median:.2f} ({ratio.least:.2f} - {ratio.most:.2f})", _reach(row), verdict]
        limit = self._values.get((workload, row.limit or ""))
        if base is not None and limit is not None:
            cells.append(f"{Ratio.of(base, limit).median:.1f}")
        else:
            cells.append("")
        cells.append("" if base is None else self._speed(row, base))
        return "| " + " | ".join(cells) + " |"

    def _speed(self, row: Row, values: Sequence[float]) -> str:
        amount = row.amount(self._data)
        value = statistics.median(values)
        return f"{amount / value:,.0f} {row.unit}" if amount else f"{value:.3g} {row.unit}"


def _reach(row: Row) -> str:
    return "" if row.target is None else f"{row.target:.3g}"
