"""``on_corrupt="skip"``: sound records stand in for broken ones, the same whoever looks.

    batch fails --> read its records one by one --> broken ones are remembered, each with its stand-in
                                                        |
    every later batch: positions of broken records ---> positions of their stand-ins, before anything is read

What stands in for a record depends on the population and on which records are broken. So all ranks, threads and
workers choose alike, each for itself, and so does a run that resumes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from dsrt_lightning.draws.candidates import candidates
from dsrt_lightning.errors import CorruptCacheError

if TYPE_CHECKING:
    from dsrt_lightning.loading.assemble import BatchMemory
    from dsrt_lightning.loading.requests import BatchRequest
    from dsrt_lightning.loading.stats import Made
    from dsrt_lightning.loading.view import View

OnCorrupt = Literal["raise", "skip"]
ON_CORRUPT: tuple[OnCorrupt, ...] = ("raise", "skip")

# Records that are tried in the place of a broken one. All of so many are broken only where nearly everything is.
_MAX_TRIES = 100


class Assembler(Protocol):
    """Makes batches."""

    def __call__(self, request: BatchRequest, memory: BatchMemory | None = None) -> Made:
        """Return the batch of ``request``, in ``memory`` if it can, and what it took."""

    def check(self, row: int) -> None:
        """Read a record by its number; raise what a batch with it would raise."""


class Substitution:
    """What stands in for the broken records that were found so far; any thread may call.

    A copy in another process finds them for itself.

    Args:
        view: The population and how it is drawn.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._broken: dict[int, str] = {}  # by record number: what is wrong
        self._stand_ins: dict[int, int] = {}  # population positions
        self._lock = threading.Lock()

    def __call__(self, request: BatchRequest) -> BatchRequest:
        """Return ``request`` with stand-ins in place of what is known to be broken."""
        if not self._stand_ins:
            return request
        positions = request.positions.tolist()
        found = [i for i, position in enumerate(positions) if position in self._stand_ins]
        if not found:
            return request
        rows = self._view.records.rows(request.positions).tolist()
        is_sound = request.valid()
        is_sound[found] = False
        return replace(
            request,
            positions=np.array([self._stand_ins.get(position, position) for position in positions], np.int64),
            skipped=tuple(self._broken[rows[i]] for i in found if i < request.num_valid),
            is_sound=is_sound,
        )

    def look_for_broken(self, request: BatchRequest, check: Callable[[int], None]) -> None:
        """Read the records of ``request`` one by one, and choose stand-ins for those that are broken.

        Raises:
            CorruptCacheError: There is no sound record to stand in for one.
            OSError: A record cannot be read at all.
        """
        with self._lock:
            for position in dict.fromkeys(request.positions.tolist()):
                if position not in self._stand_ins and self._is_broken(position, check):
                    self._stand_ins[position] = self._stand_in(position, check)

    def _is_broken(self, position: int, check: Callable[[int], None]) -> bool:
        row = int(self._view.records.rows(np.array([position]))[0])
        if row not in self._broken:
            try:
                check(row)
            except CorruptCacheError as error:
                self._broken[row] = str(error)
        return row in self._broken

    def _stand_in(self, position: int, check: Callable[[int], None]) -> int:
        population = self._view.records.population
        tried = candidates(population, self._view.sampling, position, _MAX_TRIES).tolist()
        for other in tried:
            if not self._is_broken(other, check):
                return int(other)
        row = int(self._view.records.rows(np.array([position]))[0])
        raise CorruptCacheError(
            f"{self._broken[row]}; on_corrupt='skip' tried {len(tried)} rows in its place, of a population of "
            f"{len(population)}, and all are broken too ({len(self._broken)} broken records were found so far)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Substitution, (self._view,)


class SkippingAssembler:
    """Makes the batches of an assembler, whatever is broken in them.

    Args:
        assembler: Raises `CorruptCacheError` for a batch with a broken record.
        substitution: Knows what stands in for it; public, for who reads ahead in another way.
    """

    def __init__(self, assembler: Assembler, substitution: Substitution) -> None:
        self._assembler = assembler
        self.substitution = substitution

    def __call__(self, request: BatchRequest, memory: BatchMemory | None = None) -> Made:
        """Return the batch of ``request``, in ``memory`` if the assembler can, and what it took.

        Raises:
            CorruptCacheError: There is no sound record to stand in, or no single record is what is broken.
        """
        tried = self.substitution(request)
        while True:
            try:
                return self._assembler(tried, memory)
            except CorruptCacheError:
                self.substitution.look_for_broken(request, self._assembler.check)
                again = self.substitution(request)
                if np.array_equal(again.positions, tried.positions):
                    raise
                tried = again
