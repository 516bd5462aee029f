"""How an epoch is drawn, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args

Mode = Literal["sequential", "shuffle", "weighted", "weighted_once", "quota", "blocks"]
MODES: tuple[str, ...] = get_args(Mode)

# What each mode needs or takes besides ``epoch_length``.
_OPTIONS: dict[str, tuple[str, ...]] = {"quota": ("column", "shares"), "blocks": ("block_records", "window_records")}


@dataclass(frozen=True)
class Sampling:
    """A mode and its options; a checkpoint names it by :meth:`text`.

    Attributes:
        mode: ``sequential`` is table order; ``shuffle`` every row once before any again; ``weighted`` independent
            weighted draws with replacement; ``weighted_once`` weighted order without replacement; ``quota`` fixed
            class shares in every global batch; ``blocks`` a shuffle that reads within windows of whole blocks.
        epoch_length: Draws of an epoch over all ranks, ``>= 1``; None is the size of the population.
        column: ``quota``: the metadata column whose values are the classes.
        shares: ``quota``: ``"equal"``, also if None, or a number ``> 0`` for each class that is to be drawn; only
            their ratios count.
        block_records: ``blocks``: consecutive population rows that stay together, ``>= 1``.
        window_records: ``blocks``: rows that are shuffled among each other, a multiple of ``block_records``.

    Raises:
        ValueError: An option is missing, out of range, or belongs to another mode.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    mode: Mode = "weighted"
    epoch_length: int | None = None
    column: str | None = None
    shares: Literal["equal"] | dict[Any, float] | None = None
    block_records: int | None = None
    window_records: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"sampling: mode is {self.mode!r} but must be one of {', '.join(MODES)}")
        for field in fields(self)[2:]:
            owner = next(mode for mode, names in _OPTIONS.items() if field.name in names)
            if self.mode != owner and getattr(self, field.name) is not None:
                raise ValueError(f"sampling: {field.name} is an option of mode {owner!r}, not of {self.mode!r}")
        if self.epoch_length is not None:
            _require_count("epoch_length", self.epoch_length)
        if self.mode == "quota":
            self._check_quota()
        if self.mode == "blocks":
            self._check_blocks()

    @classmethod
    def of(cls, value: Sampling | str | Mapping[str, Any], *, epoch_length: int | None = None) -> Sampling:
        """Return a sampling from a mode's name or a mapping of options, with another epoch length if one is given.

        Raises:
            ValueError: As for the class; TypeError: the mapping has an unknown option.
        """
        if isinstance(value, str):
            value = {"mode": value}
        sampling = value if isinstance(value, Sampling) else cls(**value)
        return sampling if epoch_length is None else replace(sampling, epoch_length=epoch_length)

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The metadata columns that the draws need as class codes."""
        return () if self.column is None else (self.column,)

    @property
    def uses_weights(self) -> bool:
        """Whether rows of unequal weight are drawn unequally."""
        return self.mode in ("weighted", "weighted_once", "quota")

    @property
    def uses_global_batch(self) -> bool:
        """Whether the draws are a function of the global batch too, so that a pass cannot go on with another one."""
        return self.mode == "quota"

    def text(self) -> str:
        """Return the canonical text: equal for equal samplings, and short enough for an error message."""
        options = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        if isinstance(self.shares, dict):
            pairs = [[value, float(share)] for value, share in self.shares.items()]
            options["shares"] = sorted(pairs, key=json.dumps)
        given = [f"{name}={json.dumps(value)}" for name, value in options.items() if value is not None]
        return " ".join([self.mode, *given])

    def _check_quota(self) -> None:
        if self.column is None:
            raise ValueError("sampling: mode 'quota' needs column, the metadata column whose values are the classes")
        if self.shares is None:
            object.__setattr__(self, "shares", "equal")
        if self.shares == "equal":
            return
        if not isinstance(self.shares, dict) or not self.shares:
            raise ValueError(f"sampling: shares is {self.shares!r} but must be 'equal' or map each class to a number")
        for value, share in self.shares.items():
            if not 0 < share < float("inf"):
                raise ValueError(f"sampling: shares[{value!r}] is {share!r} but must be finite and above 0")

    def _check_blocks(self) -> None:
        if self.block_records is None or self.window_records is None:
            raise ValueError("sampling: mode 'blocks' needs block_records and window_records, numbers of records")
        _require_count("block_records", self.block_records)
        _require_count("window_records", self.window_records)
        if self.window_records % self.block_records:
            raise ValueError(
                f"sampling: window_records is {self.window_records} but must be a multiple of "
                f"block_records, {self.block_records}"
            )


def _require_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
        raise ValueError(f"sampling: {name} is {value!r} but must be an integer in [1, 2^63)")
