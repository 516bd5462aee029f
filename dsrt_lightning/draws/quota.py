"""Draws with fixed class shares."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from dsrt_lightning import _core
from dsrt_lightning.draws.apportion import apportion, whole_shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dsrt_lightning.draws.sampling import Sampling
    from dsrt_lightning.draws.stream import Drawable


def quota_draws(
    population: Drawable, sampling: Sampling, epoch_length: int, seed: int, global_batch: int | None
) -> _core.QuotaDraws:
    """Return the native draws of mode ``quota``.

    Raises:
        ValueError: The global batch is missing, a class with a share has no rows, or its share of an epoch comes to
            no draw.
    """
    column = sampling.column
    assert column is not None
    if global_batch is None:
        raise ValueError("quota: the draws depend on the global batch; give global_batch")
    if global_batch < 1:
        raise ValueError(f"quota: global_batch is {global_batch} but must be at least 1")
    table, _, values = _groups(population, column)
    num_rows = np.diff(table[: len(values) + 1]).tolist()
    shares = _shares_by_code(sampling, values, num_rows)
    parts = apportion(whole_shares(shares.values()), epoch_length, global_batch)
    for number, (code, share) in enumerate(shares.items()):
        if parts.draws_per_epoch(number) == 0:
            part = epoch_length * share / sum(shares.values())
            raise ValueError(
                f"quota: class {values[code]!r} of column {column!r} has a share of {part:.3g} draws in an epoch of "
                f"{epoch_length} and would never be drawn; raise epoch_length or its share"
            )
    weights = None if population.uniform else population.weights
    return _core.QuotaDraws(parts, seed, table, len(values), list(shares), weights)


def class_rows(population: Drawable, column: str, position: int) -> NDArray[np.int64]:
    """Return the rows of the class that the row at ``position`` belongs to, int64, ascending."""
    table, codes, values = _groups(population, column)
    code = int(codes[position])
    begin, end = table[code : code + 2] + len(values) + 1
    return table[begin:end]


def _groups(population: Drawable, column: str) -> tuple[NDArray[np.int64], NDArray[np.int32], list[Any]]:
    """Return a column's group table, the code of each row, and the values of the codes."""
    codes, values = population.group_codes(column)
    name = "groups-" + hashlib.sha256(column.encode()).hexdigest()[:16]
    return population.table(name, lambda: _core.build_group_table(codes, len(values))), codes, values


def _shares_by_code(sampling: Sampling, values: list[Any], num_rows: list[int]) -> dict[int, float]:
    """Return the share of each class that is to be drawn by the class's code, in the order of codes."""
    codes = {value: code for code, value in enumerate(values) if num_rows[code]}
    if not isinstance(sampling.shares, dict):
        return dict.fromkeys(codes.values(), 1)
    for value, share in sampling.shares.items():
        if value not in codes:
            some = ", ".join(map(repr, list(codes)[:10])) + (", ..." if len(codes) > 10 else "")
            raise ValueError(
                f"quota: class {value!r} of column {sampling.column!r} has share {share} but 0 rows; remove it from "
                f"shares or keep rows of it (classes with rows: {some})"
            )
    return dict(sorted((codes[value], share) for value, share in sampling.shares.items()))
