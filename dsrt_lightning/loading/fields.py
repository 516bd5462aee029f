"""What of a batch the user gets, and in which form."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from dsrt_lightning.errors import ConfigError

if TYPE_CHECKING:
    from dsrt_lightning.loading.requests import BatchRequest
    from dsrt_lightning.loading.view import Records

ID_FIELDS = ("cache_id", "sample_id", "weight", "valid")


@dataclass(frozen=True)
class FieldSelection:
    """Selects a batch's fields.

    Args:
        names: A sequence gives a tuple in that order, a single name gives that field alone, and None gives a dict
            of all payload fields. A nested field is named ``outer.inner``. ``cache_id`` and ``sample_id`` (int64
            ``[rows]``), ``weight`` (float64 ``[rows]``) and ``valid`` (bool ``[rows]``, False on padding) may be
            named too, unless the samples have a field of that name, which is refused.
        mask: Add ``valid`` to a dict, for passes whose last batch may be padded.
    """

    names: tuple[str, ...] | str | None = None
    mask: bool = False

    @classmethod
    def of(cls, fields: Sequence[str] | str | None, *, mask: bool) -> FieldSelection:
        """Make a selection from what a user wrote."""
        names = fields if fields is None or isinstance(fields, str) else tuple(fields)
        return cls(names, mask)

    def requested(self) -> tuple[str, ...]:
        """Return the names asked for, without repeats; empty for all."""
        if self.names is None:
            return ()
        return tuple(dict.fromkeys((self.names,) if isinstance(self.names, str) else self.names))

    def check(self, available: Sequence[str]) -> None:
        """Refuse names that neither the payload nor the ids have, or both.

        Raises:
            ConfigError: With every unknown name and the choices, or the names that mean two things.
        """
        asked = (*self.requested(), *(("valid",) if self.mask and self.names is None else ()))
        if twice := [name for name in asked if name in ID_FIELDS and name in available]:
            raise ConfigError(
                f"fields: {', '.join(map(repr, twice))} is a field of the samples and also what the loader adds; build "
                "the cache with another name for it, or rename it in a transform"
            )
        choices = [*_with_parents(available), *ID_FIELDS]
        unknown = [name for name in self.requested() if name not in choices]
        if unknown:
            listed = ", ".join(repr(name) + _suggestion(name, choices) for name in unknown)
            raise ConfigError(f"fields: {listed} not in the samples (fields: {', '.join(choices)})")

    def payload_fields(self, available: Sequence[str]) -> list[str]:
        """Return the leaf names of ``available`` that have to be read, in stored order."""
        names = self.requested()
        if not names:
            return list(available)
        return [leaf for leaf in available if any(leaf == name or leaf.startswith(f"{name}.") for name in names)]

    def build(self, payload: Any, request: BatchRequest, records: Records) -> Any:
        """Return the batch: ``payload`` (a collated sample), reduced to what was asked for, with ids."""
        if self.names is None:
            if self.mask and isinstance(payload, dict):
                payload.setdefault("valid", torch.from_numpy(request.valid()))
            return payload
        ids = _Ids(request, records)
        if isinstance(self.names, str):
            return _field(payload, self.names, ids)
        return tuple(_field(payload, name, ids) for name in self.names)


class _Ids:
    """The fields that do not come from the payload, computed when asked for."""

    def __init__(self, request: BatchRequest, records: Records) -> None:
        self._request = request
        self._records = records

    def __getitem__(self, name: str) -> torch.Tensor:
        if name == "valid":
            return torch.from_numpy(self._request.valid())
        if name == "weight":
            return torch.from_numpy(np.array(self._records.population.weights_at(self._request.positions)))
        cache_ids, sample_ids = self._records.ids(self._records.rows(self._request.positions))
        return torch.from_numpy(cache_ids if name == "cache_id" else sample_ids)


def _field(payload: Any, name: str, ids: _Ids) -> Any:
    value = payload
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            if name in ID_FIELDS:
                return ids[name]
            choices = list(payload) if isinstance(payload, Mapping) else []
            raise ConfigError(
                f"fields: {name!r} is not in the batch (a {type(payload).__name__}"
                + (f" with {', '.join(map(str, choices))}" if choices else "")
                + f"); ids are {', '.join(ID_FIELDS)}"
            )
        value = value[part]
    return value


def _with_parents(leaves: Sequence[str]) -> list[str]:
    names: dict[str, None] = {}
    for leaf in leaves:
        parts = leaf.split(".")
        for depth in range(1, len(parts) + 1):
            names[".".join(parts[:depth])] = None
    return list(names)


def _suggestion(name: str, choices: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, choices, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
