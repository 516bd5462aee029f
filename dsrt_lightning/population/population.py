"""The rows that were chosen, in order and with weights: what everything after the rules works on."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsrt_lightning.population.further_columns import ColumnsInMemory, FurtherColumns, MappedColumns
from dsrt_lightning.population.listed_rows import ListedRows
from dsrt_lightning.population.scratch import ScratchFolder
from dsrt_lightning.population.snapshot_files import SnapshotFiles, complete, open_or_make, snapshot_place
from dsrt_lightning.population.stored_columns import StoredColumns
from dsrt_lightning.store.lazy import lazy_property

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from dsrt_lightning.store.cache_set import CacheSet

_ROWS_PER_UPDATE = 1 << 16
_ROWS, _WEIGHTS, _COLUMNS, _TABLE = "rows.npy", "weights.npy", "columns.arrow", "table.npy"


class Population:
    """Rows of opened caches, ordered and weighted; a row may appear more than once. It never changes.

    It lies in files that every process maps, or in memory; pickling one that is in memory writes it to files, which
    live as long as it does. So private memory a process does not grow with the population, and workers need no Polars.

    Attributes:
        caches: What the record numbers count.
        weights: Float64 ``[P]``, finite and above 0, read-only; of stride 0 where all are equal.
        uniform: Whether all weights are equal.
    """

    def __init__(
        self,
        caches: CacheSet,
        rows: NDArray[np.int64] | ListedRows,
        weights: NDArray[np.float64] | float,
        further: FurtherColumns | None = None,
        *,
        replaces_stored: bool = False,
        groups: dict[str, tuple[NDArray[np.int32], list[Any]]] | None = None,
    ) -> None:
        """Hold what is known to be right; `from_frame`, `all_rows` and `from_files` make populations.

        Args:
            caches: The opened caches.
            rows: ``[P]``, ``P >= 1``; becomes read-only. Or every record once.
            weights: ``[P]``, becomes read-only; or the weight of all rows.
            further: Columns that the rules or the user added.
            replaces_stored: ``further`` stands in place of the stored columns, not after them.
            groups: What `group_codes` returns, for columns that are known already.
        """
        self.caches = caches
        self._size = len(rows)
        self._listed = rows if isinstance(rows, ListedRows) else None
        if not isinstance(rows, ListedRows):
            self.__dict__["rows"] = _frozen(rows)
        self.uniform = isinstance(weights, float)
        self.weights = np.broadcast_to(weights, (len(rows),)) if isinstance(weights, float) else _frozen(weights)
        self._further = further
        self._replaces_stored = replaces_stored
        self._groups = groups or {}
        self._tables: dict[str, NDArray[Any]] = {}
        self._files: SnapshotFiles | None = None
        self._is_copy = False  # of a population whose process compared the files with their checksums

    @classmethod
    def all_rows(cls, caches: CacheSet) -> Population:
        """Return every record once, caches in the order they were given, all with weight 1; reads no metadata."""
        return cls(caches, ListedRows(caches), 1.0)

    @classmethod
    def from_frame(cls, caches: CacheSet, frame: pl.DataFrame | pl.LazyFrame, *, where: str = "metadata") -> Population:
        """Return the rows of a frame in its order; it is accepted as a whole or refused.

        Args:
            caches: Hold the records.
            frame: ``cache_id``, ``sample_id``, ``weight`` (1 if missing), and any other columns, which become the
                rows' metadata. Rows of weight zero are left out.
            where: How error messages begin.

        Raises:
            MetadataError: A column is missing or of a wrong type, or an id is unknown.
            WeightError: A weight is null, not finite or negative, or all are zero.
            EmptyPopulationError: There are no rows.
        """
        import polars as pl

        from dsrt_lightning.population.selection import select

        table = frame if isinstance(frame, pl.DataFrame) else frame.collect()
        rows, weights, columns = select(caches, table, where)
        return cls(caches, rows, weights, ColumnsInMemory(columns), replaces_stored=True)

    @classmethod
    def from_files(cls, caches: CacheSet, files: SnapshotFiles) -> Population:
        """Return a population that `write` wrote, mapped."""
        facts = files.facts
        weights = files.array(_WEIGHTS) if facts["weight"] is None else float(facts["weight"])
        further = MappedColumns(files.directory / _COLUMNS) if files.has(_COLUMNS) else None
        groups = {
            column: (files.array(_group(number)), values) for number, (column, values) in enumerate(facts["groups"])
        }
        population = cls(
            caches,
            files.array(_ROWS),
            weights,
            further,
            replaces_stored=facts["replaces_stored"],
            groups=groups,
        )
        population._files = files
        return population

    def __len__(self) -> int:
        """Rows."""
        return self._size

    @lazy_property
    def rows(self) -> NDArray[np.int64]:
        """Record numbers, int64 ``[P]``, read-only; of every record once they are made when first asked for."""
        return _frozen(self.rows_at(np.arange(self._size)))

    @lazy_property
    def digest(self) -> str:
        """SHA-256 in hex over the caches' identities, the rows and the weights; checkpoints hold it."""
        if self._files is not None and self._files.facts["digest"] is not None:
            return str(self._files.facts["digest"])
        digest = hashlib.sha256(b"dsrt.population.1\n")  # what follows is *part of the format* of checkpoints
        digest.update("".join(f"{identity}\n" for identity in self.caches.identities).encode())
        for values_at, dtype in ((self.rows_at, "<i8"), (self.weights_at, "<f8")):
            for start in range(0, self._size, _ROWS_PER_UPDATE):
                positions = np.arange(start, min(start + _ROWS_PER_UPDATE, self._size))
                digest.update(np.ascontiguousarray(values_at(positions), dtype).data)
        return digest.hexdigest()

    def rows_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the record numbers at positions, int64 of the same shape."""
        return self.rows[positions] if self._listed is None else self._listed.at(positions)

    def weights_at(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights at positions, float64 of the same shape."""
        return self.weights[positions]

    def metadata(self, position: int) -> dict[str, object]:
        """Return the columns of one row but its ids: the stored ones, further ones, ``weight``.

        Raises:
            IndexError: ``position`` is not in ``[0, P)``.
            CorruptCacheError: A metadata file is damaged.
        """
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is not in [0, {len(self)})")
        stored = {} if self._replaces_stored else self._stored.row(int(self.rows_at(np.array([position]))[0]))
        further = self._further.row(position) if self._further is not None else {}
        return {**stored, **further, "weight": float(self.weights[position])}

    def find(self, cache_id: int, sample_id: int) -> int:
        """Return the first position of a record: by bisection where the rows are sorted, else by looking through them.

        Raises:
            KeyError: The population does not have it.
        """
        for cache, base in zip(self.caches.caches, self.caches.bases, strict=True):
            if cache.cache_id == cache_id and 0 <= sample_id < cache.num_records:
                row = base + sample_id
                position = np.searchsorted(self.rows, row) if self._is_sorted else np.argmax(self.rows == row)
                if position < len(self) and self.rows[position] == row:
                    return int(position)
        raise KeyError(f"the population has no row of cache_id {cache_id}, sample_id {sample_id}")

    def frame(self) -> pl.DataFrame:
        """Return the population as a metadata table: ids, stored columns, further ones, ``weight``."""
        from dsrt_lightning.population.metadata import population_frame, scan_metadata

        if self._listed is not None and self._further is None:  # as `all_rows` made it
            return scan_metadata(self.caches).collect(engine="in-memory")
        further = self._further.frame() if self._further is not None else None
        return population_frame(self.caches, self.rows, self.weights, further, replaces_stored=self._replaces_stored)

    def group_codes(self, column: str) -> tuple[NDArray[np.int32], list[Any]]:
        """Return which value of a column each row has.

        Returns:
            int32 ``[P]`` codes, read-only, and the values that they index, sorted, None last.

        Raises:
            MetadataError: There is no such column, or its values are not bools, integers, text or categories.
        """
        if column not in self._groups:
            from dsrt_lightning.population.groups import group_codes

            self._groups[column] = group_codes(self.frame(), column)
        return self._groups[column]

    def table(self, name: str, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return what ``make`` returned when it was first called for this population, read-only.

        A population in files keeps it there, and every process maps it.

        Args:
            name: A plain file name.
            make: Computes an array from the population alone.
        """
        if name not in self._tables:
            if self._files is None:
                self._tables[name] = _frozen(make())
            else:
                directory, place = self._files.directory / "tables" / name, self._files.place
                verify = not self._is_copy
                files = open_or_make(directory, place, lambda folder: _save_table(folder, make()), verify=verify)
                self._tables[name] = files.array(_TABLE)
        return self._tables[name]

    def write(self, directory: Path) -> dict[str, Any]:
        """Write the files of a snapshot into an empty folder, and return its facts."""
        _save(directory / _ROWS, self.rows)
        if not self.uniform:
            _save(directory / _WEIGHTS, self.weights)
        if self._further is not None and (columns := self._further.frame()).width:
            from polars import CompatLevel

            columns.write_ipc(directory / _COLUMNS, compression="uncompressed", compat_level=CompatLevel.newest())
        for number, (codes, _) in enumerate(self._groups.values()):
            _save(directory / _group(number), codes)
        for name, array in self._tables.items():
            (directory / "tables" / name).mkdir(parents=True)
            complete(directory / "tables" / name, partial(_save_table, array=array))
        return {
            "digest": self.__dict__.get("digest"),
            "weight": float(self.weights[0]) if self.uniform else None,
            "replaces_stored": self._replaces_stored,
            "groups": [[column, values] for column, (_, values) in self._groups.items()],
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Send a folder's name."""
        if self._files is None:
            place = snapshot_place()
            scratch = ScratchFolder(place)
            weakref.finalize(self, scratch.close)
            complete(scratch.path, self.write)
            self._files = SnapshotFiles(scratch.path, place, verify=False)
        return _reopen, (self.caches, self._files.directory, self._files.place)

    @lazy_property
    def _is_sorted(self) -> bool:
        return bool((self.rows[1:] >= self.rows[:-1]).all())

    @lazy_property
    def _stored(self) -> StoredColumns:
        return StoredColumns(self.caches)


def _reopen(caches: CacheSet, directory: Path, place: Path) -> Population:
    try:
        population = Population.from_files(caches, SnapshotFiles(directory, place, verify=False))
    except FileNotFoundError as error:
        reason = "the process that pickled this population has dropped it or ended; keep it until all have unpickled it"
        raise FileNotFoundError(error.errno, reason, str(directory)) from None
    population._is_copy = True
    return population


def _save_table(directory: Path, array: NDArray[Any]) -> dict[str, Any]:
    _save(directory / _TABLE, array)
    return {}


def _save(path: Path, array: NDArray[Any]) -> None:
    np.save(path, array.astype(array.dtype.newbyteorder("<"), copy=False), allow_pickle=False)


def _group(number: int) -> str:
    return f"group-{number}.npy"


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
